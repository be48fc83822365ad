/* What nvcc's start-up code does, by hand: a fat binary with PTX is registered with a kernel and a variable.
   Compiled by a C compiler against the headers of either version, so it also tries what differs between the
   two. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                     \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                 \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
                          ".visible .global .align 4 .u32 offset = 3;\n"
                          ".visible .entry add(.param .u64 out, .param .u32 value)\n{\n"
                          ".reg .u64 %rd<2>; .reg .u32 %r<5>;\n"
                          "ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [value];\n"
                          "ld.global.u32 %r2, [offset]; add.u32 %r3, %r1, %r2;\n"
                          "mov.u32 %r4, %tid.x; mad.lo.u32 %r3, %r4, 100, %r3;\n"
                          "mul.wide.u32 %rd0, %r4, 4; add.u64 %rd1, %rd1, %rd0;\n"
                          "st.global.u32 [%rd1], %r3; ret;\n}\n";

struct container {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t entries_bytes;
  uint16_t kind, entry_version;
  uint32_t entry_header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes, options;
  uint16_t minor, major;
  uint32_t architecture, name_offset, name_bytes;
  uint64_t flags, zero, uncompressed_bytes;
  char payload[(sizeof ptx + 7) / 8 * 8];
} container = {.magic = 0xBA55ED50,
               .version = 1,
               .header_bytes = 16,
               .entries_bytes = 64 + sizeof container.payload,
               .kind = 1,
               .entry_version = 0x101,
               .entry_header_bytes = 64,
               .payload_bytes = sizeof container.payload,
               .major = 7,
               .architecture = 50,
               .flags = 0x11};

static struct wrapper {
  uint32_t magic, version;
  const void *data, *unused;
} wrapper = {0x466243B1, 1, &container, 0};

void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                            void *tid, void *bid, void *block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

static char add; /* stands for the stub of the kernel */
static int offset_of_host;

static void launches(void) {
  int *memory, host[4] = {0}, value = 20, nine = 9;
  OK(cudaMalloc((void **)&memory, sizeof host));
  dim3 one = {1, 1, 1}, four = {4, 1, 1}, grid, block;
  size_t shared;
  cudaStream_t stream;
  CHECK(__cudaPushCallConfiguration(one, four, 16, cudaStreamPerThread) == 0);
  OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  CHECK(grid.x == 1 && block.x == 4 && shared == 16 && stream == cudaStreamPerThread);
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaErrorMissingConfiguration);
  void *arguments[] = {&memory, &value};
  OK(cudaLaunchKernel(&add, grid, block, arguments, 0, 0));
  OK(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 23 && host[3] == 323);
  OK(cudaMemcpyToSymbol(&offset_of_host, &nine, sizeof nine, 0, cudaMemcpyHostToDevice));
  OK(cudaLaunchKernel(&add, grid, block, arguments, 0, cudaStreamPerThread));
  OK(cudaMemcpyAsync(host, memory, sizeof host, cudaMemcpyDeviceToHost, cudaStreamPerThread));
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  CHECK(host[0] == 29);
  OK(cudaDeviceReset());
  OK(cudaMalloc((void **)&memory, sizeof host));
  OK(cudaLaunchKernel(&add, grid, block, arguments, 0, 0));
  OK(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 23);
}

static void properties(void) {
  struct {
    struct cudaDeviceProp value;
    char after[64];
  } read;
  memset(&read, 0x77, sizeof read);
  OK(cudaGetDeviceProperties(&read.value, 0));
  for (size_t i = 0; i < sizeof read.after; ++i)
    CHECK(read.after[i] == 0x77);
  CHECK(read.value.warpSize == 32 && read.value.major == 9 && read.value.minor == 0);
  CHECK(read.value.multiProcessorCount == 16 && read.value.unifiedAddressing == 1);
  int value = 0;
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrDeferredMappingCudaArraySupported, 0));
  CHECK(read.value.deferredMappingCudaArraySupported == value);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrReservedSharedMemoryPerBlock, 0));
  CHECK(value > 0 && (int)read.value.reservedSharedMemPerBlock == value);
#if CUDART_VERSION < 13000
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0));
  CHECK(value > 0 && read.value.clockRate == value);
  /* The structure of programs compiled before CUDA 12 ends before hostRegisterSupported. */
  struct cudaDeviceProp first;
  memset(&first, 0x77, sizeof first);
  cudaError_t (*first_version)(struct cudaDeviceProp *, int) = dlsym(RTLD_DEFAULT, "cudaGetDeviceProperties");
  OK(first_version(&first, 0));
  size_t end = offsetof(struct cudaDeviceProp, hostRegisterSupported);
  CHECK(memcmp(&first, &read.value, end) == 0);
  CHECK(((char *)&first)[end] == 0x77);
#endif
}

static void captures(void) {
  cudaStream_t stream;
  cudaGraph_t graph, seen = 0;
  unsigned long long id = 0;
  size_t count = 7;
  const cudaGraphNode_t *nodes = 0;
  enum cudaStreamCaptureStatus status;
  int *memory;
  OK(cudaStreamCreate(&stream));
  OK(cudaMalloc((void **)&memory, 64));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(memory, 1, 64, stream));
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData *edges = 0;
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, &seen, &nodes, &edges, &count));
  CHECK(count == 1 && seen != 0);
  OK(cudaStreamUpdateCaptureDependencies(stream, 0, 0, 0, cudaStreamSetCaptureDependencies));
#else
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, &seen, &nodes, &count)); /* the second version */
  CHECK(count == 1 && seen != 0 && status == cudaStreamCaptureStatusActive);
  const cudaGraphEdgeData *edges = 0;
  OK(cudaStreamGetCaptureInfo_v3(stream, &status, &id, &seen, &nodes, &edges, &count));
  CHECK(count == 1);
  cudaError_t (*first_version)(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *) =
      dlsym(RTLD_DEFAULT, "cudaStreamGetCaptureInfo");
  unsigned long long again = 0;
  OK(first_version(stream, &status, &again));
  CHECK(again == id && status == cudaStreamCaptureStatusActive);
  OK(cudaStreamUpdateCaptureDependencies(stream, 0, 0, cudaStreamSetCaptureDependencies));
#endif
  OK(cudaMemsetAsync(memory, 2, 64, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t both[2];
  count = 2;
  OK(cudaGraphGetNodes(graph, both, &count));
  CHECK(count == 2);
  size_t edge_count = 0;
#if CUDART_VERSION >= 13000
  OK(cudaGraphGetEdges(graph, 0, 0, 0, &edge_count));
  CHECK(edge_count == 0);
  OK(cudaGraphAddDependencies(graph, &both[0], &both[1], 0, 1));
  OK(cudaGraphGetEdges(graph, 0, 0, 0, &edge_count));
#else
  OK(cudaGraphGetEdges(graph, 0, 0, &edge_count));
  CHECK(edge_count == 0);
  OK(cudaGraphAddDependencies(graph, &both[0], &both[1], 1));
  OK(cudaGraphGetEdges_v2(graph, 0, 0, 0, &edge_count));
#endif
  CHECK(edge_count == 1);
  OK(cudaGraphDestroy(graph));
}

static void differences(void) {
  char *managed;
  OK(cudaMallocManaged((void **)&managed, 4096, cudaMemAttachGlobal));
#if CUDART_VERSION >= 13000
  struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
  OK(cudaMemPrefetchAsync(managed, 4096, device, 0, 0));
  OK(cudaMemAdvise(managed, 4096, cudaMemAdviseSetReadMostly, device));
#else
  OK(cudaMemPrefetchAsync(managed, 4096, 0, 0));
  OK(cudaMemPrefetchAsync(managed, 4096, cudaCpuDeviceId, 0));
  OK(cudaMemAdvise(managed, 4096, cudaMemAdviseSetReadMostly, 0));
  struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
  OK(cudaMemPrefetchAsync_v2(managed, 4096, device, 0, 0));
  OK(cudaThreadSynchronize());
#endif
  cudaEvent_t start, end;
  float first = -1;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(start, 0));
  OK(cudaMemset(managed, 5, 4096));
  OK(cudaEventRecord(end, 0));
  OK(cudaEventSynchronize(end));
  OK(cudaEventElapsedTime(&first, start, end));
  CHECK(first > 0);
#if CUDART_VERSION < 13000
  float second = -1;
  OK(cudaEventElapsedTime_v2(&second, start, end));
  CHECK(first == second);
#endif
  struct cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, managed + 9));
  CHECK(attributes.type == cudaMemoryTypeManaged && attributes.devicePointer == managed + 9);
  CHECK(managed[0] == 5 && managed[4095] == 5);
}

int main(void) {
  memcpy(container.payload, ptx, sizeof ptx);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &add, "add", "add", -1, 0, 0, 0, 0, 0);
  __cudaRegisterVar(handle, (char *)&offset_of_host, "offset", "offset", 0, 4, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  CHECK(version / 1000 == CUDART_VERSION / 1000);
  launches();
  properties();
  captures();
  differences();
  __cudaUnregisterFatBinary(handle);
  dim3 one = {1, 1, 1};
  CHECK(cudaLaunchKernel(&add, one, one, 0, 0, 0) == cudaErrorInvalidDeviceFunction);
  puts("ok");
  return 0;
}
