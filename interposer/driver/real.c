// The real driver, which the shim asks with no wrapper in between.
#include "driver/real.h"

#include "base/selection.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

void *(*real_dlsym)(void *handle, const char *name);
_Atomic(void *) real_functions[SLOT_COUNT];
static _Atomic(void *)
    driver; // what dlopen gave; any handle through which dlsym finds the driver's functions

void find_real_dlsym(void) {
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (size_t n = 0; real_dlsym == NULL && n < sizeof versions / sizeof *versions; n++) {
    void *found = dlvsym(RTLD_NEXT, "dlsym", versions[n]);
    memcpy(&real_dlsym, &found, sizeof found);
  }
  if (real_dlsym == NULL)
    abort(); // no glibc that this was built for; the jump in dlsym.S would be worse
}

// ---- stand-ins ----------------------------------------------------------------------------------

enum { MAX_STAND_INS = 4 }; // one for the capture, and that in the folder of the CPU driver
static struct {
  _Atomic(const char *) begin;
  const char *end;
  void *(*driver)(void);
} stand_ins[MAX_STAND_INS];

// An empty file `driver.<pid>` in the raw capture: this process has loaded the driver, though it may never
// call a function that is recorded. What goes wrong has no effect on the application.
static void leave_mark(void) {
  const char *directory = capture_directory();
  char path[PATH_MAX];
  if (directory == NULL ||
      snprintf(path, sizeof path, "%s/driver.%d", directory, (int)getpid()) >= (int)sizeof path)
    return;
  KEEP_ERRNO;
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0)
    close(file);
}

// From the constructor of a stand-in: where its functions are, and what gives a handle of the driver.
EXPORT void replay_stand_in(const char *begin, const char *end, void *(*driver)(void)) {
  leave_mark();
  for (int n = 0; n < MAX_STAND_INS; n++)
    if (atomic_load(&stand_ins[n].begin) == NULL) { // the loader's lock is held
      stand_ins[n].end = end;
      stand_ins[n].driver = driver;
      atomic_store(&stand_ins[n].begin, begin);
      return;
    }
}

// Which stand-in a function belongs to; -1: to none, so its code is not a jump to a wrapper.
static int stand_in_of(const void *function) {
  for (int n = 0; n < MAX_STAND_INS; n++) {
    const char *begin = atomic_load(&stand_ins[n].begin);
    if (begin != NULL && (const char *)function >= begin && (const char *)function < stand_ins[n].end)
      return n;
  }
  return -1;
}

bool is_of_stand_in(const void *function) { return stand_in_of(function) >= 0; }

// ---- the driver ---------------------------------------------------------------------------------

static bool is_driver_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return strncmp(slash != NULL ? slash + 1 : path, "libcuda.so", 10) == 0;
}

bool is_of_driver(void *found) {
  Dl_info info;
  struct link_map *object = NULL;
  if (dladdr1(found, &info, (void **)&object, RTLD_DL_LINKMAP) == 0 || object == NULL)
    return false;
  if (object->l_name != NULL && is_driver_name(object->l_name))
    return true;
  const char *strings = NULL;
  const ElfW(Dyn) *soname = NULL;
  for (const ElfW(Dyn) *entry = object->l_ld; entry != NULL && entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_STRTAB)
      strings = (const char *)entry->d_un.d_ptr; // an address: glibc has added the base
    else if (entry->d_tag == DT_SONAME)
      soname = entry;
  return strings != NULL && soname != NULL && is_driver_name(strings + soname->d_un.d_val);
}

void remember_driver(void *application_handle, void *function) {
  if (atomic_load(&driver) != NULL)
    return;
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == NULL)
    return;
  // Keeps it loaded, as its functions are kept.
  void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  Lmid_t name_space;
  if (handle == NULL && dlinfo(application_handle, RTLD_DI_LMID, &name_space) == 0) // dlmopen
    handle = dlmopen(name_space, info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL)
    handle = application_handle;
  void *none = NULL;
  atomic_compare_exchange_strong(&driver, &none, handle);
}

static void *driver_handle(void) {
  void *handle = atomic_load(&driver);
  if (handle != NULL)
    return handle;
  const char *chosen = getenv(ENV_REAL_DRIVER);
  if (chosen != NULL && chosen[0] != '\0')
    handle = dlopen(chosen, RTLD_LAZY | RTLD_LOCAL);
  if (handle == NULL)
    handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL)
    handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  void *none = NULL;
  if (handle != NULL && !atomic_compare_exchange_strong(&driver, &none, handle))
    handle = none;
  return handle;
}

void *driver_symbol(const char *symbol) {
  if (real_dlsym == NULL)
    find_real_dlsym();
  void *handle = driver_handle();
  void *found = handle != NULL ? real_dlsym(handle, symbol) : NULL;
  int stand_in = found != NULL ? stand_in_of(found) : -1;
  return stand_in >= 0 ? real_dlsym(stand_ins[stand_in].driver(), symbol) : found;
}

char *driver_path(void) {
  Dl_info info;
  void *function = driver_symbol("cuInit");
  if (function == NULL || dladdr(function, &info) == 0 || info.dli_fname == NULL)
    return NULL;
  return realpath(info.dli_fname, NULL); // the stand-in finds it through a link
}

// What a function that the driver does not have answers.
static int symbol_not_found(void) { return ERROR_SYMBOL_NOT_FOUND; }

void *resolve_real(unsigned slot) {
  void *found = driver_symbol(slots[slot].symbol);
  if (found == NULL)
    return (void *)symbol_not_found;
  void *none = NULL;
  if (!atomic_compare_exchange_strong(&real_functions[slot], &none, found))
    found = none;
  return found;
}

void remember_real(unsigned slot, void *function) {
  void *none = NULL;
  atomic_compare_exchange_strong(&real_functions[slot], &none, function);
}

// ---- questions ----------------------------------------------------------------------------------

int ask_driver(_Atomic(void *) *known, const char *symbol, const uint64_t arguments[6]) {
  void *found = atomic_load_explicit(known, memory_order_acquire);
  if (found == NULL && (found = driver_symbol(symbol)) != NULL)
    atomic_store_explicit(known, found, memory_order_release);
  int (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = found;
  return function != NULL
             ? function(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5])
             : ERROR_SYMBOL_NOT_FOUND;
}

int driver_version(void) {
  int version = 0;
  return ASK("cuDriverGetVersion", word(&version)) == SUCCESS ? version : 0;
}

uint64_t current_context(void) {
  uint64_t context = 0;
  return ASK("cuCtxGetCurrent", word(&context)) == SUCCESS ? context : 0;
}

bool push_context(uint64_t context) {
  return context != 0 && context != current_context() && ASK("cuCtxPushCurrent_v2", context) == SUCCESS;
}

void pop_context(void) {
  uint64_t popped;
  ASK("cuCtxPopCurrent_v2", word(&popped));
}

bool is_host_visible(uint64_t address) {
  enum { MEMORY_TYPE = 2, IS_MANAGED = 8, TYPE_HOST = 1 }; // CUpointer_attribute, CUmemorytype
  uint32_t managed = 0, type = 0;
  if (ASK("cuPointerGetAttribute", word(&managed), IS_MANAGED, address) == SUCCESS && (managed & 0xff) != 0)
    return true;
  return ASK("cuPointerGetAttribute", word(&type), MEMORY_TYPE, address) == SUCCESS && type == TYPE_HOST;
}

int current_device(void) {
  int device;
  return ASK("cuCtxGetDevice", word(&device)) == SUCCESS ? device : -1;
}

int device_attribute(int device, int attribute) {
  int value;
  return device >= 0 &&
                 ASK("cuDeviceGetAttribute", word(&value), (uint64_t)attribute, (uint64_t)device) == SUCCESS
             ? value
             : -1;
}

uint32_t current_architecture(void) {
  enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; // CUdevice_attribute
  int device = current_device();
  int major = device_attribute(device, CAPABILITY_MAJOR), minor = device_attribute(device, CAPABILITY_MINOR);
  return major >= 0 && minor >= 0 ? (uint32_t)(major * 10 + minor) : 0;
}
