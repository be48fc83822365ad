// What the C samples share: the driver API without any CUDA header, loading the PTX that is beside a
// program, and the options that every sample takes. A C compiler is all that is needed to build them.
//
// The driver is loaded with dlopen and asked for each function through cuGetProcAddress, as the CUDA runtime
// does. A program that defines DRIVER_LOOKUP_BY_DLSYM before it includes this file takes plain symbols with
// dlsym instead, as many bindings do. SAMPLE_FUNCTIONS, defined likewise, lists the functions that only this
// sample needs, in the form of DRIVER_FUNCTIONS. Include this file in one source file per program.
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;

// Only what the samples name; the numbers are the driver API's.
enum {
  CUDA_SUCCESS = 0,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_ARRAY = 3,
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
  CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};
#ifndef DRIVER_VERSION_ASKED
#define DRIVER_VERSION_ASKED 12000
#endif
#ifndef SAMPLE_FUNCTIONS
#define SAMPLE_FUNCTIONS(FUNCTION)
#endif
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

typedef struct {
  size_t srcXInBytes, srcY;
  unsigned int srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  unsigned int dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct {
  int id;
  char pad[4];
  union {
    char pad[64];
    int cooperative, priority, cluster_scheduling;
    unsigned int cluster[3];
  } value;
} CUlaunchAttribute;

typedef struct {
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned int numAttrs;
} CUlaunchConfig;

typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct {
  int type, id;
} CUmemLocation;

typedef struct {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void *win32HandleMetaData;
  unsigned char allocFlags[8];
} CUmemAllocationProp;

typedef struct {
  CUmemLocation location;
  int flags;
} CUmemAccessDesc;

typedef struct {
  CUfunction func;
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  void **kernelParams, **extra;
  CUkernel kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

// FUNCTION(name for cuGetProcAddress, plain symbol, parameters)
#define DRIVER_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuInit, cuInit, (unsigned int))                                                                   \
  FUNCTION(cuDriverGetVersion, cuDriverGetVersion, (int *))                                                  \
  FUNCTION(cuDeviceGet, cuDeviceGet, (CUdevice *, int))                                                      \
  FUNCTION(cuDeviceGetName, cuDeviceGetName, (char *, int, CUdevice))                                        \
  FUNCTION(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                      \
  FUNCTION(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice))                              \
  FUNCTION(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext))                                                    \
  FUNCTION(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext *))                                                  \
  FUNCTION(cuCtxSynchronize, cuCtxSynchronize, (void))                                                       \
  FUNCTION(cuGetErrorName, cuGetErrorName, (CUresult, const char **))                                        \
  FUNCTION(cuModuleLoadDataEx, cuModuleLoadDataEx, (CUmodule *, const void *, unsigned int, int *, void **)) \
  FUNCTION(cuModuleGetFunction, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                 \
  FUNCTION(cuModuleUnload, cuModuleUnload, (CUmodule))                                                       \
  FUNCTION(cuLibraryLoadData, cuLibraryLoadData,                                                             \
           (CUlibrary *, const void *, int *, void **, unsigned int, int *, void **, unsigned int))          \
  FUNCTION(cuLibraryGetKernel, cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *))                    \
  FUNCTION(cuLibraryGetGlobal, cuLibraryGetGlobal, (CUdeviceptr *, size_t *, CUlibrary, const char *))       \
  FUNCTION(cuLibraryUnload, cuLibraryUnload, (CUlibrary))                                                    \
  FUNCTION(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                               \
  FUNCTION(cuMemAllocPitch, cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int))     \
  FUNCTION(cuMemFree, cuMemFree_v2, (CUdeviceptr))                                                           \
  FUNCTION(cuMemAllocManaged, cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                      \
  FUNCTION(cuMemAllocAsync, cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                              \
  FUNCTION(cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr, CUstream))                                          \
  FUNCTION(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                                     \
           (size_t *, const CUmemAllocationProp *, int))                                                     \
  FUNCTION(cuMemCreate, cuMemCreate,                                                                         \
           (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))        \
  FUNCTION(cuMemRelease, cuMemRelease, (CUmemGenericAllocationHandle))                                       \
  FUNCTION(cuMemAddressReserve, cuMemAddressReserve,                                                         \
           (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                                 \
  FUNCTION(cuMemAddressFree, cuMemAddressFree, (CUdeviceptr, size_t))                                        \
  FUNCTION(cuMemMap, cuMemMap,                                                                               \
           (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))                  \
  FUNCTION(cuMemUnmap, cuMemUnmap, (CUdeviceptr, size_t))                                                    \
  FUNCTION(cuMemSetAccess, cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))           \
  FUNCTION(cuMemAllocHost, cuMemAllocHost_v2, (void **, size_t))                                             \
  FUNCTION(cuMemFreeHost, cuMemFreeHost, (void *))                                                           \
  FUNCTION(cuMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                               \
  FUNCTION(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                     \
  FUNCTION(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))           \
  FUNCTION(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                 \
  FUNCTION(cuMemcpy2D, cuMemcpy2D_v2, (const CUDA_MEMCPY2D *))                                               \
  FUNCTION(cuMemsetD32, cuMemsetD32_v2, (CUdeviceptr, unsigned int, size_t))                                 \
  FUNCTION(cuMemsetD32Async, cuMemsetD32Async, (CUdeviceptr, unsigned int, size_t, CUstream))                \
  FUNCTION(cuArray3DCreate, cuArray3DCreate_v2, (CUarray *, const void *))                                   \
  FUNCTION(cuArrayDestroy, cuArrayDestroy, (CUarray))                                                        \
  FUNCTION(cuTexObjectCreate, cuTexObjectCreate, (CUtexObject *, const void *, const void *, const void *))  \
  FUNCTION(cuTexObjectDestroy, cuTexObjectDestroy, (CUtexObject))                                            \
  FUNCTION(cuSurfObjectCreate, cuSurfObjectCreate, (CUsurfObject *, const void *))                           \
  FUNCTION(cuSurfObjectDestroy, cuSurfObjectDestroy, (CUsurfObject))                                         \
  FUNCTION(cuStreamCreate, cuStreamCreate, (CUstream *, unsigned int))                                       \
  FUNCTION(cuStreamSynchronize, cuStreamSynchronize, (CUstream))                                             \
  FUNCTION(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream, CUevent, unsigned int))                          \
  FUNCTION(cuStreamDestroy, cuStreamDestroy_v2, (CUstream))                                                  \
  FUNCTION(cuEventCreate, cuEventCreate, (CUevent *, unsigned int))                                          \
  FUNCTION(cuEventRecord, cuEventRecord, (CUevent, CUstream))                                                \
  FUNCTION(cuEventSynchronize, cuEventSynchronize, (CUevent))                                                \
  FUNCTION(cuEventElapsedTime, cuEventElapsedTime, (float *, CUevent, CUevent))                              \
  FUNCTION(cuEventDestroy, cuEventDestroy_v2, (CUevent))                                                     \
  FUNCTION(cuLaunchKernel, cuLaunchKernel,                                                                   \
           (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,  \
            unsigned int, CUstream, void **, void **))                                                       \
  FUNCTION(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel,                                             \
           (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,  \
            unsigned int, CUstream, void **))                                                                \
  FUNCTION(cuLaunchKernelEx, cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))       \
  FUNCTION(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))                                   \
  FUNCTION(cuStreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph *))                                    \
  FUNCTION(cuGraphGetNodes, cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *))                             \
  FUNCTION(cuGraphNodeGetType, cuGraphNodeGetType, (CUgraphNode, int *))                                     \
  FUNCTION(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2,                                        \
           (CUgraphNode, CUDA_KERNEL_NODE_PARAMS *))                                                         \
  FUNCTION(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                                         \
           (CUgraphExec *, CUgraph, unsigned long long))                                                     \
  FUNCTION(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2,                                \
           (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *))                                      \
  FUNCTION(cuGraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                                            \
  FUNCTION(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                                            \
  FUNCTION(cuGraphDestroy, cuGraphDestroy, (CUgraph))

#define DECLARE_FUNCTION(name, symbol, parameters) static CUresult(*name) parameters;
DRIVER_FUNCTIONS(DECLARE_FUNCTION)
SAMPLE_FUNCTIONS(DECLARE_FUNCTION)

_Noreturn static inline void stop(const char *what) {
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
  exit(EXIT_FAILURE);
}

static inline void check_driver(CUresult result, const char *call, const char *file, int line) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = NULL;
  if (!cuGetErrorName || cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "an error without a name";
  fprintf(stderr, "%s: %s failed with %d, %s (%s:%d)\n", program_invocation_short_name, call, result, name,
          file, line);
  exit(EXIT_FAILURE);
}
#define CHECK(call) check_driver((call), #call, __FILE__, __LINE__)

static inline void *driver_symbol(void *library, const char *symbol) {
  void *address = dlsym(library, symbol);
  if (!address) {
    fprintf(stderr, "%s: libcuda.so.1 has no %s\n", program_invocation_short_name, symbol);
    exit(EXIT_FAILURE);
  }
  return address;
}

// Loads the driver, takes device 0 and makes its primary context current.
static inline CUdevice open_device(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    stop("no NVIDIA driver: libcuda.so.1 cannot be loaded. `replay capture --driver emulator -- PROGRAM` "
         "brings its own");
#ifdef DRIVER_LOOKUP_BY_DLSYM
#define FIND_FUNCTION(name, symbol, parameters) *(void **)(&name) = driver_symbol(library, #symbol);
#else
  CUresult (*cuGetProcAddress)(const char *, void **, int, uint64_t, int *);
  *(void **)(&cuGetProcAddress) = driver_symbol(library, "cuGetProcAddress_v2");
#define FIND_FUNCTION(name, symbol, parameters)                                                              \
  CHECK(cuGetProcAddress(#name, (void **)(&name), DRIVER_VERSION_ASKED, 0, NULL));                           \
  if (!name)                                                                                                 \
    stop("this driver is too old, it has no " #name);
#endif
  DRIVER_FUNCTIONS(FIND_FUNCTION)
  SAMPLE_FUNCTIONS(FIND_FUNCTION)

  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  return device;
}

// The text of `name` in the folder of this program, ending in NUL. The caller frees it.
static inline char *read_beside_program(const char *name) {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length < 0)
    stop("cannot find its own folder");
  path[length] = '\0';
  char *folder_end = strrchr(path, '/') + 1;
  if ((size_t)(folder_end - path) + strlen(name) >= sizeof path)
    stop("is in a folder with too long a path");
  strcpy(folder_end, name);

  FILE *file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(errno));
    exit(EXIT_FAILURE);
  }
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *text = calloc(1, (size_t)size + 1);
  if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
    stop("cannot read its PTX");
  fclose(file);
  return text;
}

// The module in the PTX file `name` beside this program. Prints the compiler's message when it does not load.
static inline CUmodule load_module(const char *name) {
  char log[4096] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  char *ptx = read_beside_program(name);
  CUmodule module = NULL;
  CUresult result = cuModuleLoadDataEx(&module, ptx, 2, options, values);
  if (result != CUDA_SUCCESS && log[0])
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, name, log);
  CHECK(result);
  free(ptx);
  return module;
}

// usage: PROGRAM [LAUNCHES] [--pause-after N --pause-file PATH]
typedef struct {
  unsigned launches;
  unsigned pause_after; // 0: never
  const char *pause_file;
} Options;

static inline unsigned parse_count(const char *text) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (errno || *end || end == text || value < 1 || value > 1000000) {
    fprintf(stderr, "%s: '%s' is not a number of launches from 1 to 1000000\n", program_invocation_short_name,
            text);
    exit(2);
  }
  return (unsigned)value;
}

static inline Options parse_options(int count, char **arguments, unsigned launches) {
  Options options = {launches, 0, NULL};
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--pause-after") == 0 && i + 1 < count)
      options.pause_after = parse_count(arguments[++i]);
    else if (strcmp(arguments[i], "--pause-file") == 0 && i + 1 < count)
      options.pause_file = arguments[++i];
    else if (arguments[i][0] != '-')
      options.launches = parse_count(arguments[i]);
    else {
      fprintf(stderr, "usage: %s [LAUNCHES] [--pause-after N --pause-file PATH]\n",
              program_invocation_short_name);
      exit(2);
    }
  }
  if ((options.pause_after != 0) != (options.pause_file != NULL))
    stop("--pause-after and --pause-file go together");
  return options;
}

// Lets a test stop the program between two launches: after launch N it writes its process id into the pause
// file and waits until somebody removes that file (a minute at most).
static inline void pause_between_launches(const Options *options, unsigned launches_done) {
  if (options->pause_after != launches_done)
    return;
  char text[32];
  char temporary[PATH_MAX];
  snprintf(text, sizeof text, "%ld\n", (long)getpid());
  snprintf(temporary, sizeof temporary, "%s.new", options->pause_file);
  int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  // Renamed into place, so that whoever waits for the file finds the number in it.
  if (file < 0 || write(file, text, strlen(text)) < 0 || close(file) != 0 ||
      rename(temporary, options->pause_file) != 0)
    stop("cannot write the pause file");
  const struct timespec interval = {0, 10 * 1000 * 1000};
  for (int waited_ms = 0; access(options->pause_file, F_OK) == 0; waited_ms += 10) {
    if (waited_ms >= 60 * 1000)
      stop("nobody removed the pause file");
    nanosleep(&interval, NULL);
  }
}

// A small generator with a fixed seed: every run has the same inputs, on every machine.
static inline uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static inline void *allocate_host(size_t bytes) {
  void *memory = malloc(bytes);
  if (!memory)
    stop("not enough host memory");
  return memory;
}

static inline void say_device(CUdevice device) {
  char name[128] = "";
  CHECK(cuDeviceGetName(name, sizeof name, device));
  printf("%s on %s: ", program_invocation_short_name, name);
}
