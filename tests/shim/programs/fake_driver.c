// A libcuda.so.1 that does next to nothing, so that tests of the shim need no other driver. Every function of
// the headers exists (functions.inc is made from the table). Device memory is host memory; kernels are
// recognised by their names.
//
// FAKE_LOG=FILE: one line per call, name and arguments in hexadecimal.
// FAKE_RESULTS=NAME:NUMBER,...: what these functions answer.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#include "fake_stream.h"

struct bytes_64 {
  char bytes[64];
};

// ---- the log ------------------------------------------------------------------------------------

static int log_descriptor = -2;

static void log_call(const char *symbol, const uint64_t *words, int count) {
  if (log_descriptor == -2) {
    const char *path = getenv("FAKE_LOG");
    log_descriptor = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  }
  if (log_descriptor < 0)
    return;
  char line[1024];
  int length = snprintf(line, sizeof line, "%s", symbol);
  for (int n = 0; n < count; n++)
    length += snprintf(line + length, sizeof line - (size_t)length, " %llx", (unsigned long long)words[n]);
  line[length++] = '\n';
  if (write(log_descriptor, line, (size_t)length) < 0)
    abort();
}

static int chosen_result(const char *symbol) {
  const char *at = getenv("FAKE_RESULTS");
  size_t length = strlen(symbol);
  for (; at != NULL && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, symbol, length) == 0 && at[length] == ':')
      return atoi(at + length + 1);
  return 0;
}

// Outputs of `count` elements get a pattern that tells the parameter.
static void fill(uint64_t pointer, uint64_t bytes, int parameter) {
  if (pointer != 0)
    memset((void *)(uintptr_t)pointer, 0x50 + parameter, bytes);
}

static uint64_t counter(uint64_t pointer, size_t bytes) {
  uint64_t value = 0;
  if (pointer != 0)
    memcpy(&value, (void *)(uintptr_t)pointer, bytes);
  return value;
}

#define FAKE(symbol, parameters, count, fills, ...)                                                          \
  EXPORT int symbol parameters {                                                                             \
    uint64_t words[] = {__VA_ARGS__};                                                                        \
    (void)words;                                                                                             \
    log_call(#symbol, words, count);                                                                         \
    int result = chosen_result(#symbol);                                                                     \
    if (result == 0) {                                                                                       \
      fills;                                                                                                 \
    }                                                                                                        \
    return result;                                                                                           \
  }
#include "functions.inc"

#define LOGGED(symbol, ...)                                                                                  \
  uint64_t words[] = {__VA_ARGS__};                                                                          \
  log_call(#symbol, words, sizeof words / sizeof *words);                                                    \
  int chosen = chosen_result(#symbol);                                                                       \
  if (chosen != 0)                                                                                           \
    return chosen;

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, uint64_t bytes, uint64_t stream) {
  LOGGED(cuMemcpyDtoHAsync_v2, (uint64_t)to, from, bytes, stream)
  if (!submit_later(to, from, bytes, 0))
    queue_copy(to, from, bytes);
  return 0;
}
static uint64_t registered, registered_bytes; // the last memory of the host
static int is_registered(uint64_t address) { return address - registered < registered_bytes; }

EXPORT int cuMemHostRegister_v2(uint64_t host, uint64_t bytes, uint32_t flags) {
  LOGGED(cuMemHostRegister_v2, host, bytes, flags)
  registered = host, registered_bytes = bytes;
  return 0;
}
EXPORT int cuStreamWriteValue32_v2(uint64_t stream, uint64_t to, uint32_t value, uint32_t flags) {
  LOGGED(cuStreamWriteValue32_v2, stream, to, value, flags)
  run_queued();
  if (is_registered(to) && !submit_later((void *)(uintptr_t)to, 0, 0, value))
    __atomic_store_n((uint32_t *)(uintptr_t)to, value, __ATOMIC_RELEASE);
  return 0;
}
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *device, uint64_t host, uint32_t flags) {
  LOGGED(cuMemHostGetDevicePointer_v2, (uint64_t)device, host, flags)
  fill((uint64_t)device, sizeof *device, 0);
  if (device != NULL && is_registered(host))
    *device = host;
  return 0;
}
EXPORT int cuMemHostUnregister(uint64_t host) {
  LOGGED(cuMemHostUnregister, host)
  run_queued();
  return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, void *from, uint64_t bytes, uint64_t stream) {
  LOGGED(cuMemcpyHtoDAsync_v2, to, (uint64_t)from, bytes, stream)
  run_queued();
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}

// One capture at a time.
static _Atomic uint64_t captured_stream;

EXPORT int cuStreamBeginCapture_v2(uint64_t stream, int capture_mode) {
  LOGGED(cuStreamBeginCapture_v2, stream, capture_mode)
  captured_stream = stream;
  return 0;
}
EXPORT int cuStreamEndCapture(uint64_t stream, uint64_t *graph) {
  LOGGED(cuStreamEndCapture, stream, (uint64_t)graph)
  captured_stream = 0;
  if (graph != NULL)
    memset(graph, 0x51, sizeof *graph);
  return 0;
}
EXPORT int cuStreamIsCapturing(uint64_t stream, int *status) {
  LOGGED(cuStreamIsCapturing, stream, (uint64_t)status)
  *status = captured_stream != 0 && stream == captured_stream;
  return 0;
}
EXPORT int cuStreamIsCapturing_ptsz(uint64_t stream, int *status) {
  return cuStreamIsCapturing(stream, status);
}

EXPORT int cuStreamQuery(uint64_t stream) {
  LOGGED(cuStreamQuery, stream)
  run_queued();
  return fake_device_stops ? fake_device_stops : fake_device_waits ? 600 : 0; // CUDA_ERROR_NOT_READY
}
EXPORT int cuCtxSynchronize(void) {
  LOGGED(cuCtxSynchronize, 0)
  if (fake_device_stops > 0 && fake_device_stops != 600)
    return fake_device_stops;
  while (fake_device_waits)
    usleep(1000);
  return 0;
}

// ---- memory -------------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uint64_t base, bytes;
} allocations[4096];
static int allocation_count;

static int allocate(uint64_t *address, uint64_t bytes) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED || address == NULL)
    return 2;
  pthread_mutex_lock(&lock);
  allocations[allocation_count].base = *address = (uint64_t)(uintptr_t)mapped;
  allocations[allocation_count++].bytes = bytes;
  pthread_mutex_unlock(&lock);
  return 0;
}

static int release(uint64_t address) {
  int result = 1;
  run_queued();
  pthread_mutex_lock(&lock);
  for (int n = 0; n < allocation_count; n++)
    if (allocations[n].base == address) {
      munmap((void *)(uintptr_t)address, allocations[n].bytes);
      allocations[n] = allocations[--allocation_count];
      result = 0;
      break;
    }
  pthread_mutex_unlock(&lock);
  return result;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, uint64_t bytes) {
  LOGGED(cuMemAlloc_v2, (uint64_t)address, bytes)
  return allocate(address, bytes);
}
EXPORT int cuMemAllocManaged(uint64_t *address, uint64_t bytes, uint32_t flags) {
  LOGGED(cuMemAllocManaged, (uint64_t)address, bytes, flags)
  return allocate(address, bytes);
}
EXPORT int cuMemHostAlloc(uint64_t *address, uint64_t bytes, uint32_t flags) {
  LOGGED(cuMemHostAlloc, (uint64_t)address, bytes, flags)
  return allocate(address, bytes);
}
EXPORT int cuIpcGetMemHandle(void *handle, uint64_t address) {
  memcpy(handle, &address, sizeof address);
  return 0;
}

EXPORT int cuMemFree_v2(uint64_t address) {
  LOGGED(cuMemFree_v2, address)
  return release(address);
}
EXPORT int cuMemFreeHost(uint64_t address) {
  LOGGED(cuMemFreeHost, address)
  return release(address);
}
EXPORT int cuMemcpyHtoD_v2(uint64_t to, void *from, uint64_t bytes) {
  LOGGED(cuMemcpyHtoD_v2, to, (uint64_t)from, bytes)
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, uint64_t bytes) {
  LOGGED(cuMemcpyDtoH_v2, (uint64_t)to, from, bytes)
  if (to == NULL)
    return 1;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return 0;
}
EXPORT int cuMemsetD8_v2(uint64_t to, uint8_t value, uint64_t bytes) {
  LOGGED(cuMemsetD8_v2, to, value, bytes)
  memset((void *)(uintptr_t)to, value, bytes);
  return 0;
}

// ---- one device ---------------------------------------------------------------------------------

#ifdef NEWER
enum { DRIVER_VERSION = 15000 };
#else
enum { DRIVER_VERSION = 13050 };
#endif
EXPORT int cuDriverGetVersion(int *version) {
  LOGGED(cuDriverGetVersion, (uint64_t)version)
  *version = DRIVER_VERSION;
  return 0;
}
EXPORT int cuDeviceGetCount(int *count) {
  LOGGED(cuDeviceGetCount, (uint64_t)count)
  *count = 1;
  return 0;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
  LOGGED(cuDeviceGet, (uint64_t)device, ordinal)
  *device = ordinal;
  return 0;
}
EXPORT int cuDeviceGetName(char *name, int length, int device) {
  LOGGED(cuDeviceGetName, (uint64_t)name, length, device)
  strncpy(name, "Fake device", (size_t)length);
  return 0;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  LOGGED(cuDeviceGetAttribute, (uint64_t)value, attribute, device)
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute; // compute capability 9.0
  return 0;
}
EXPORT int cuDeviceGetUuid_v2(char *uuid, int device) {
  LOGGED(cuDeviceGetUuid_v2, (uint64_t)uuid, device)
  memcpy(uuid, "0123456789abcdef", 16);
  return 0;
}
EXPORT int cuDeviceTotalMem_v2(uint64_t *bytes, int device) {
  LOGGED(cuDeviceTotalMem_v2, (uint64_t)bytes, device)
  *bytes = 1 << 30;
  return 0;
}

// ---- contexts, modules, kernels -----------------------------------------------------------------

struct fake_kernel {
  char name[256];
};
static uint64_t counters[64]; // what the module variable "counters" is
static _Thread_local uint64_t current = 0xc0de0;

EXPORT int cuCtxGetCurrent(uint64_t *context) {
  LOGGED(cuCtxGetCurrent, (uint64_t)context)
  *context = current;
  return 0;
}

static struct fake_kernel kernels[4096];
static int kernel_count;

static uint64_t new_kernel(const char *name) {
  pthread_mutex_lock(&lock);
  struct fake_kernel *kernel = &kernels[kernel_count++];
  strncpy(kernel->name, name, sizeof kernel->name - 1);
  pthread_mutex_unlock(&lock);
  return (uint64_t)(uintptr_t)kernel;
}

static const char *name_of(uint64_t handle) {
  struct fake_kernel *kernel = (struct fake_kernel *)(uintptr_t)handle;
  return kernel >= kernels && kernel < kernels + kernel_count ? kernel->name : NULL;
}

EXPORT int cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name) {
  LOGGED(cuModuleGetFunction, (uint64_t)function, module, (uint64_t)name)
  if (strcmp(name, "replay_nonfinite") == 0) // the shim's own
    return 500;
  *function = new_kernel(name);
  return 0;
}
EXPORT int cuLibraryGetKernel(uint64_t *kernel, uint64_t library, const char *name) {
  LOGGED(cuLibraryGetKernel, (uint64_t)kernel, library, (uint64_t)name)
  *kernel = new_kernel(name);
  return 0;
}
EXPORT int cuModuleGetGlobal_v2(uint64_t *address, uint64_t *bytes, uint64_t module, const char *name) {
  LOGGED(cuModuleGetGlobal_v2, (uint64_t)address, (uint64_t)bytes, module, (uint64_t)name)
  if (strcmp(name, "counters") != 0)
    return 500;
  if (address)
    *address = (uint64_t)(uintptr_t)counters;
  if (bytes)
    *bytes = sizeof counters;
  return 0;
}
EXPORT int cuFuncGetName(const char **name, uint64_t function) {
  LOGGED(cuFuncGetName, (uint64_t)name, function)
  *name = name_of(function);
  return *name == NULL ? 400 : 0;
}

// increment(u32 *data, u32 count); by_struct({u64, u32 *data, u64}, u32 count); through_table(u32 **table,
// u32 count); others take four words.
static int layout(const char *name, uint64_t index, uint64_t *offset, uint64_t *size) {
  static const struct {
    const char *name;
    uint64_t count, offsets[4], sizes[4];
  } known[] = {
      {"increment", 2, {0, 8}, {8, 4}},        {"by_struct", 2, {0, 24}, {24, 4}},
      {"through_table", 2, {0, 8}, {8, 4}},    {"nothing", 0, {0}, {0}},
      {NULL, 4, {0, 8, 16, 24}, {8, 8, 8, 8}},
  };
  int row = 0;
  while (known[row].name != NULL && strstr(name, known[row].name) == NULL)
    row++;
  if (index >= known[row].count)
    return 1;
  *offset = known[row].offsets[index];
  if (size)
    *size = known[row].sizes[index];
  return 0;
}

EXPORT int cuFuncGetParamInfo(uint64_t function, uint64_t index, uint64_t *offset, uint64_t *size) {
  LOGGED(cuFuncGetParamInfo, function, index)
  return name_of(function) ? layout(name_of(function), index, offset, size) : 400;
}
EXPORT int cuKernelGetParamInfo(uint64_t kernel, uint64_t index, uint64_t *offset, uint64_t *size) {
  LOGGED(cuKernelGetParamInfo, kernel, index)
  return name_of(kernel) ? layout(name_of(kernel), index, offset, size) : 400;
}

static int launch(uint64_t function, void **values) {
  const char *name = name_of(function);
  run_queued();
  if (name == NULL)
    return 400;
  if (fake_launch_stops_device) {
    fake_device_stops = fake_launch_stops_device;
    fake_launch_stops_device = 0;
  }
  if (fake_device_stops)
    return 0;
  if (strstr(name, "increment") != NULL) {
    uint32_t *data = *(uint32_t **)values[0], count = *(uint32_t *)values[1];
    for (uint32_t n = 0; n < count; n++)
      __atomic_fetch_add(&data[n], 1, __ATOMIC_RELAXED);
  } else if (strstr(name, "by_struct") != NULL) {
    uint32_t *data = ((uint32_t **)values[0])[1], count = *(uint32_t *)values[1];
    for (uint32_t n = 0; n < count; n++)
      data[n]++;
  } else if (strstr(name, "through_table") != NULL) {
    uint32_t **table = *(uint32_t ***)values[0], count = *(uint32_t *)values[1];
    for (uint32_t n = 0; n < count; n++)
      table[n][0]++;
  } else if (strcmp(name, "count") == 0) {
    counters[0]++;
  } else if (strcmp(name, "sleeps") == 0) {
    usleep(600000);
  } else if (strcmp(name, "faults") == 0) {
    *(volatile int *)8 = 1;
  } else if (strcmp(name, "kills") == 0) {
    kill(getpid(), SIGKILL);
  } else if (strcmp(name, "aborts") == 0) {
    abort();
  } else if (strcmp(name, "exits") == 0) {
    _exit(7);
  } else if (strcmp(name, "thread_exits") == 0) {
    pthread_exit(NULL);
  } else if (strcmp(name, "refuses") == 0) {
    return 700;
  } else if (strcmp(name, "too_large") == 0) {
    return 1;
  }
  return 0;
}

EXPORT int cuLaunchKernel(uint64_t function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
                          uint32_t bz, uint32_t shared, uint64_t stream, void **values, void **extra) {
  LOGGED(cuLaunchKernel, function, gx, gy, gz, bx, by, bz, shared, stream, (uint64_t)values, (uint64_t)extra)
  return launch(function, values);
}
EXPORT int cuLaunchKernelEx(uint64_t config, uint64_t function, void **values, void **extra) {
  LOGGED(cuLaunchKernelEx, config, function, (uint64_t)values, (uint64_t)extra)
  return launch(function, values);
}

// ---- lookup -------------------------------------------------------------------------------------

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

// With -DNEWER: a driver of a release after the table's, with a row that the table does not know.
#ifdef NEWER
EXPORT int cuMemAlloc_v9(double other_prototype) { return 0; }
#endif

static const struct {
  const char *name;
  int version, flags;
  void *function;
} rows[] = {
#ifdef NEWER
    {"cuMemAlloc", 14000, 0, (void *)cuMemAlloc_v9},
#endif

#define PROC(name, version, flags, symbol) {#name, version, flags, (void *)symbol},
#include "procedures.inc"
};

static void *look_up(const char *name, int version, uint64_t flags) {
  int best = -1;
  for (int n = 0; n < (int)(sizeof rows / sizeof *rows); n++) {
    if (strcmp(rows[n].name, name) != 0 || rows[n].version > version || (rows[n].flags == 2 && !(flags & 2)))
      continue;
    if (best < 0 || rows[n].flags > rows[best].flags ||
        (rows[n].flags == rows[best].flags && rows[n].version > rows[best].version))
      best = n;
  }
  return best < 0 ? NULL : rows[best].function;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  if (version > DRIVER_VERSION)
    return 1;
  *function = look_up(name, version, flags);
  return *function ? 0 : 500;
}
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  if (version > DRIVER_VERSION)
    return 1;
  *function = look_up(name, version, flags);
  if (status)
    *status = *function ? 0 : 1;
  return 0;
}
