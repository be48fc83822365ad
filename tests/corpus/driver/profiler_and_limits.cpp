// covers: The calls around a program's work: profiler ranges, limits, cache configuration, occupancy, events
// that time, device attributes and properties of the context.
#include "check.hpp"

// Of cudaProfiler.h, which not every toolkit has.
extern "C" CUresult CUDAAPI cuProfilerStart(void);
extern "C" CUresult CUDAAPI cuProfilerStop(void);

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  char name[256];
  CHECK(cuDeviceGetName(name, sizeof name, primary.device));
  REQUIRE(std::strlen(name) > 0);
  size_t total, available, capacity;
  CHECK(cuDeviceTotalMem(&total, primary.device));
  CHECK(cuMemGetInfo(&available, &capacity));
  REQUIRE(available <= capacity && capacity == total);
  CUuuid identity;
  CHECK(cuDeviceGetUuid(&identity, primary.device));
  int major, warp, threads, multiprocessors;
  CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, primary.device));
  CHECK(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, primary.device));
  CHECK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, primary.device));
  CHECK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, primary.device));
  REQUIRE(major >= 5 && warp == 32 && threads == 1024 && multiprocessors > 0);

  size_t limit;
  CHECK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20));
  CHECK(cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
  REQUIRE(limit >= 32 << 20);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CHECK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
  REQUIRE(limit >= 4096);
  CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 << 20));
  EXPECT(cuCtxGetLimit(&limit, CU_LIMIT_MAX), CUDA_ERROR_UNSUPPORTED_LIMIT);
  CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
  CHECK(cuFuncSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1));
  CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));

  int per_multiprocessor, grid, block;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, 256, 0));
  REQUIRE(per_multiprocessor >= 1 && per_multiprocessor <= 8);
  CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel, nullptr, 0, 0));
  REQUIRE(block % 32 == 0 && block <= 1024 && grid >= multiprocessors);
  int lowest, highest, priority;
  CHECK(cuCtxGetStreamPriorityRange(&lowest, &highest));
  REQUIRE(highest <= lowest);
  CUstream stream;
  CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, highest));
  CHECK(cuStreamGetPriority(stream, &priority));
  REQUIRE(priority == highest);

  const uint32_t count = 100000;
  Words x(counting(count));
  CUevent start, middle, end, untimed;
  for (CUevent *event : {&start, &middle, &end})
    CHECK(cuEventCreate(event, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  CHECK(cuProfilerStart());
  CHECK(cuEventRecord(start, stream));
  CHECK(launch(kernel, 1000, 128, stream, x.address, uint32_t(3), uint32_t(1), uint32_t(1)));
  CHECK(cuEventRecord(middle, stream));
  CHECK(launch(kernel, 1000, 128, stream, x.address, uint32_t(3), uint32_t(1), count));
  CHECK(cuEventRecord(end, stream));
  CHECK(cuEventRecord(untimed, stream));
  CHECK(cuEventSynchronize(end));
  CHECK(cuProfilerStop());
  float first, both;
  CHECK(cuEventElapsedTime(&first, start, middle));
  CHECK(cuEventElapsedTime(&both, start, end));
  REQUIRE(first > 0 && both > first);
  EXPECT(cuEventElapsedTime(&both, start, untimed), CUDA_ERROR_INVALID_HANDLE);
  auto expected = axpb(counting(count), 3, 1);
  expected[0] = 3 * expected[0] + 1;
  equal("x", words(x.address, count), expected);
  for (CUevent event : {start, middle, end, untimed})
    CHECK(cuEventDestroy(event));
  CHECK(cuStreamDestroy(stream));
  return ok();
}
