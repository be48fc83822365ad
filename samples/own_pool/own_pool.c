// A memory pool of the application's own: it keeps what is freed, becomes the pool that the device allocates
// from, and gives memory by its name as well.
#define SAMPLE_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuMemPoolCreate, cuMemPoolCreate, (CUmemoryPool *, const void *))                                 \
  FUNCTION(cuMemPoolSetAttribute, cuMemPoolSetAttribute, (CUmemoryPool, int, void *))                        \
  FUNCTION(cuMemPoolSetAccess, cuMemPoolSetAccess, (CUmemoryPool, const CUmemAccessDesc *, size_t))          \
  FUNCTION(cuMemPoolTrimTo, cuMemPoolTrimTo, (CUmemoryPool, size_t))                                         \
  FUNCTION(cuMemPoolDestroy, cuMemPoolDestroy, (CUmemoryPool))                                               \
  FUNCTION(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))                 \
  FUNCTION(cuDeviceSetMemPool, cuDeviceSetMemPool, (CUdevice, CUmemoryPool))                                 \
  FUNCTION(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))
typedef struct CUmemPoolHandle_st *CUmemoryPool;
#include "../common/driver.h"

enum { COUNT = 2003, THREADS = 128, BLOCKS = (COUNT + THREADS - 1) / THREADS };
enum { REUSE_ALLOW_OPPORTUNISTIC = 2, RELEASE_THRESHOLD = 4 }; // CUmemPool_attribute

typedef struct { // CUmemPoolProps
  int allocation_type, handle_types;
  CUmemLocation location;
  void *security_attributes;
  size_t max_bytes;
  unsigned short usage;
  unsigned char reserved[54];
} PoolProperties;
_Static_assert(sizeof(PoolProperties) == 88, "CUmemPoolProps");

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t piece[COUNT], sums[COUNT], expected[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("own_pool.ptx");
  CUfunction gather;
  CHECK(cuModuleGetFunction(&gather, module, "gather"));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  const PoolProperties properties = {.allocation_type = 1, .location = {1, device}}; // pinned, on the device
  const CUmemAccessDesc access = {{1, device}, 3};                                   // read and written
  CUmemoryPool pool, usual;
  CHECK(cuMemPoolCreate(&pool, &properties));
  uint64_t keep_all = UINT64_MAX;
  int no = 0;
  CHECK(cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, &keep_all));
  CHECK(cuMemPoolSetAttribute(pool, REUSE_ALLOW_OPPORTUNISTIC, &no));
  CHECK(cuMemPoolSetAccess(pool, &access, 1));
  CHECK(cuDeviceGetDefaultMemPool(&usual, device));
  CHECK(cuDeviceSetMemPool(device, pool));

  CUdeviceptr device_sums;
  CHECK(cuMemAllocFromPoolAsync(&device_sums, sizeof sums, usual, stream));
  CHECK(cuMemsetD32Async(device_sums, 0, COUNT, stream));
  uint32_t count = COUNT, random = 13;
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    CUdeviceptr device_piece;
    if (launch % 2 == 1)
      CHECK(cuMemAllocAsync(&device_piece, sizeof piece, stream));
    else
      CHECK(cuMemAllocFromPoolAsync(&device_piece, sizeof piece, pool, stream));
    for (uint32_t i = 0; i < COUNT; i++) {
      piece[i] = next_random(&random);
      expected[i] = expected[i] * 5 + piece[i];
    }
    CHECK(cuMemcpyHtoDAsync(device_piece, piece, sizeof piece, stream));
    void *parameters[] = {&device_piece, &device_sums, &count};
    CHECK(cuLaunchKernel(gather, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuMemFreeAsync(device_piece, stream));
    CHECK(cuStreamSynchronize(stream)); // before the host writes the piece again
    pause_between_launches(&options, launch);
  }
  CHECK(cuMemcpyDtoHAsync(sums, device_sums, sizeof sums, stream));
  CHECK(cuMemFreeAsync(device_sums, stream));
  CHECK(cuStreamSynchronize(stream));
  for (uint32_t i = 0; i < COUNT; i++) {
    if (sums[i] != expected[i]) {
      fprintf(stderr, "own_pool: sum %u is %u, expected %u\n", i, sums[i], expected[i]);
      return EXIT_FAILURE;
    }
  }

  CHECK(cuMemPoolTrimTo(pool, 0));
  CHECK(cuDeviceSetMemPool(device, usual));
  CHECK(cuMemPoolDestroy(pool));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches on memory of a pool, all correct\n", options.launches);
  return EXIT_SUCCESS;
}
