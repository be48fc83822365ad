// covers: Stream-ordered memory: allocations between kernels of one stream, a pool of one's own with its
// attributes, reuse, trimming, and freed memory that no call may name.
#include "check.hpp"

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const uint32_t count = 5000, blocks = (count + 255) / 256;
  auto values = counting(count);

  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool, standard, current;
  CHECK(cuMemPoolCreate(&pool, &properties));
  CHECK(cuDeviceGetDefaultMemPool(&standard, primary.device));
  CHECK(cuDeviceGetMemPool(&current, primary.device));
  REQUIRE(current == standard && pool != standard);
  cuuint64_t keep_all = UINT64_MAX, bytes = 0;
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
  REQUIRE(bytes == keep_all);

  CUdeviceptr x, y;
  CHECK(cuMemAllocAsync(&x, count * 4, stream));
  CHECK(cuMemAllocFromPoolAsync(&y, count * 4, pool, stream));
  CHECK(cuMemcpyHtoDAsync(x, values.data(), count * 4, stream));
  CHECK(launch(kernel, blocks, 256, stream, x, uint32_t(3), uint32_t(1), count));
  CHECK(cuMemcpyDtoDAsync(y, x, count * 4, stream));
  CHECK(cuMemFreeAsync(x, stream));
  CHECK(launch(kernel, blocks, 256, stream, y, uint32_t(2), uint32_t(9), count));
  std::vector<uint32_t> got(count);
  CHECK(cuMemcpyDtoHAsync(got.data(), y, count * 4, stream));
  CHECK(cuStreamSynchronize(stream));
  equal("y", got, axpb(axpb(values, 3, 1), 2, 9));

  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
  REQUIRE(bytes >= count * 4);
  CHECK(cuMemFreeAsync(y, stream));
  CHECK(cuStreamSynchronize(stream));
  EXPECT(cuMemFreeAsync(y, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
  REQUIRE(bytes == 0);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
  REQUIRE(bytes >= count * 4); // kept, as the threshold says
  CHECK(cuMemPoolTrimTo(pool, 0));
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
  REQUIRE(bytes == 0);
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &bytes));
  REQUIRE(bytes >= count * 4);

  CHECK(cuDeviceSetMemPool(primary.device, pool)); // what cuMemAllocAsync takes from now on
  CHECK(cuMemAllocAsync(&x, 4096, stream));
  CUmemoryPool of;
  CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, x));
  REQUIRE(of == pool);
  CHECK(cuMemsetD32Async(x, 7, 1024, stream));
  CHECK(launch(kernel, 4, 256, stream, x, uint32_t(6), uint32_t(0), uint32_t(1024)));
  CHECK(cuStreamSynchronize(stream));
  equal("x", words(x, 1024), std::vector<uint32_t>(1024, 42));
  CHECK(cuMemFree(x));
  CHECK(cuDeviceSetMemPool(primary.device, standard));
  CHECK(cuMemPoolDestroy(pool));
  CHECK(cuStreamDestroy(stream));
  return ok();
}
