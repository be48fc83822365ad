// How calls reach the wrappers, and how the wrappers reach the real driver.
//
// What is linked with libcuda.so.1, or loads it by that name, gets the stand-in (interposer/stand_in), whose
// functions are jumps to the wrappers. For a driver that was loaded by its path, and for other namespaces,
// dlsym answers with them. dlsym and cuGetProcAddress ask the real one first, so that a function which is not
// there stays not there; what they answer is remembered as the real function of the wrapper.
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("hidden"))) void *(*real_dlsym)(void *handle, const char *name);
_Atomic(void *) real_functions[SLOT_COUNT];

static _Atomic(void *)
    driver; // what dlopen gave; any handle through which dlsym finds the driver's functions
static _Atomic(void *) real_resolvers[2];

static void find_real_dlsym(void) {
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (size_t n = 0; real_dlsym == NULL && n < sizeof versions / sizeof *versions; n++) {
    void *found = dlvsym(RTLD_NEXT, "dlsym", versions[n]);
    memcpy(&real_dlsym, &found, sizeof found);
  }
  if (real_dlsym == NULL)
    abort(); // no glibc that this was built for; the jump in dlsym.S would be worse
}

static bool capture_requested(void) {
  static atomic_int known; // 0 unknown, 1 no, 2 yes
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == 0) {
    const char *directory = getenv(ENV_DIRECTORY);
    answer = directory != NULL && directory[0] != '\0' ? 2 : 1;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 2;
}

// ---- stand-ins ----------------------------------------------------------------------------------

enum { MAX_STAND_INS = 4 }; // one for the capture, and that in the folder of the CPU driver
static struct {
  _Atomic(const char *) begin;
  const char *end;
  void *(*driver)(void);
} stand_ins[MAX_STAND_INS];

// From the constructor of a stand-in: where its functions are, and what gives a handle of the driver below
// it.
EXPORT void replay_stand_in(const char *begin, const char *end, void *(*driver)(void)) {
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

// ---- the driver ---------------------------------------------------------------------------------

static bool is_driver_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return strncmp(slash != NULL ? slash + 1 : path, "libcuda.so", 10) == 0;
}

// Whether a function, or a variable of the same name, is a driver's. A program may have its own.
static bool is_of_driver(void *found) {
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

static void remember_driver(void *application_handle, void *function) {
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

static void remember_real(int slot, void *function) {
  void *none = NULL;
  atomic_compare_exchange_strong(&real_functions[slot], &none, function);
}

// ---- cuGetProcAddress ---------------------------------------------------------------------------

int replay_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
int replay_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

struct resolution {
  const char *name;
  int version;
  int flags;               // 2: the per-thread default stream
  int slot;                // -1: no wrapper
  int version_of_resolver; // 1, 2: cuGetProcAddress itself; else 0
};

static const struct resolution resolutions[] = {
#define SWAP(name, version, flags, symbol) {#name, version, flags, SLOT_##symbol, 0},
#define LEAVE(name, version, flags) {#name, version, flags, -1, 0},
#define RESOLVER_cuGetProcAddress 1
#define RESOLVER_cuGetProcAddress_v2 2
#define RESOLVER(name, version, flags, symbol) {#name, version, flags, -1, RESOLVER_##symbol},
#include "generated/resolution.inc"
};
enum { RESOLUTION_COUNT = sizeof resolutions / sizeof *resolutions };

// The newest row of the name whose version is not above the one asked for; flag 2 prefers the per-thread
// twin.
static const struct resolution *find_resolution(const char *name, int version, uint64_t flags) {
  int low = 0, high = RESOLUTION_COUNT;
  while (low < high) {
    int middle = (low + high) / 2;
    if (strcmp(resolutions[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  const struct resolution *best = NULL;
  for (; low < RESOLUTION_COUNT && strcmp(resolutions[low].name, name) == 0; low++) {
    const struct resolution *row = &resolutions[low];
    if (row->version > version || (row->flags == 2 && !(flags & 2)))
      continue;
    if (best == NULL || row->flags > best->flags ||
        (row->flags == best->flags && row->version > best->version))
      best = row;
  }
  return best;
}

static void *swapped(const char *name, int version, uint64_t flags, void *real) {
  const struct resolution *row = find_resolution(name, version, flags);
  if (row == NULL)
    return real;
  if (row->version_of_resolver != 0) {
    void *none = NULL;
    atomic_compare_exchange_strong(&real_resolvers[row->version_of_resolver - 1], &none, real);
    return row->version_of_resolver == 1 ? (void *)replay_cuGetProcAddress
                                         : (void *)replay_cuGetProcAddress_v2;
  }
  if (row->slot < 0 || real == slots[row->slot].wrapper)
    return real;
  remember_real(row->slot, real);
  return slots[row->slot].wrapper;
}

static void *real_resolver(int index) {
  void *found = atomic_load(&real_resolvers[index]);
  if (found == NULL) {
    found = driver_symbol(index == 0 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    if (found == NULL)
      return (void *)symbol_not_found;
    atomic_store(&real_resolvers[index], found);
  }
  return found;
}

static bool swaps(const char *symbol, void *const *pfn, int result) {
  return result == SUCCESS && symbol != NULL && symbol[0] != '\0' && pfn != NULL && *pfn != NULL &&
         capture_requested() && current_thread()->depth == 0;
}

// A driver newer than the table may have rows that the table does not know. What it gives for the newest
// release that the table knows is known; anything else may have another prototype, so it stays as it is.

EXPORT int replay_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags) {
  int (*real)(const char *, void **, int, uint64_t) = real_resolver(0);
  int result = real(symbol, pfn, version, flags);
  if (!swaps(symbol, pfn, result))
    return result;
  void *known = *pfn;
  if (version > NEWEST_RELEASE && real(symbol, &known, NEWEST_RELEASE, flags) != SUCCESS)
    known = NULL;
  if (known == *pfn)
    *pfn = swapped(symbol, version, flags, *pfn);
  return result;
}

EXPORT int replay_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags,
                                      int *status) {
  int (*real)(const char *, void **, int, uint64_t, int *) = real_resolver(1);
  int result = real(symbol, pfn, version, flags, status);
  if (!swaps(symbol, pfn, result))
    return result;
  void *known = *pfn;
  if (version > NEWEST_RELEASE && real(symbol, &known, NEWEST_RELEASE, flags, NULL) != SUCCESS)
    known = NULL;
  if (known == *pfn)
    *pfn = swapped(symbol, version, flags, *pfn);
  return result;
}

// ---- dlsym --------------------------------------------------------------------------------------

struct choice {
  uint64_t answered; // 0: dlsym.S jumps to the real dlsym
  void *value;
};

__attribute__((visibility("hidden"))) struct choice choose_symbol(void *handle, const char *name) {
  const struct choice ask_the_real_one = {0, NULL};
  if (UNLIKELY(real_dlsym == NULL))
    find_real_dlsym();
  if (name == NULL || name[0] != 'c' || name[1] != 'u' || handle == RTLD_NEXT)
    return ask_the_real_one;
  int resolver = strcmp(name, "cuGetProcAddress_v2") == 0 ? 2 : strcmp(name, "cuGetProcAddress") == 0 ? 1 : 0;
  int slot = resolver == 0 ? slot_of_symbol(name) : -1;
  if (slot < 0 && resolver == 0)
    return ask_the_real_one;
  if (!capture_requested())
    return ask_the_real_one;
  // With RTLD_DEFAULT, what is visible to all; what only the caller sees is for the real dlsym to find.
  void *found = real_dlsym(handle, name);
  if (found == NULL)
    return ask_the_real_one;
  void *wrapper = resolver == 2   ? (void *)replay_cuGetProcAddress_v2
                  : resolver == 1 ? (void *)replay_cuGetProcAddress
                                  : slots[slot].wrapper;
  if (stand_in_of(found) >= 0)
    return (struct choice){1, wrapper};
  if (!is_of_driver(found))
    return ask_the_real_one;
  remember_driver(handle, found);
  if (resolver != 0) {
    void *none = NULL;
    atomic_compare_exchange_strong(&real_resolvers[resolver - 1], &none, found);
  } else {
    remember_real(slot, found);
  }
  return (struct choice){1, wrapper};
}
