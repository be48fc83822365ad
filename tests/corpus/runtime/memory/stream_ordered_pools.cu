// covers: cudaMallocAsync and cudaFreeAsync: from the default pool and one of its own, thresholds, trims.
#include "../check.cuh"

__global__ void fill(unsigned *data, int count, unsigned seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    data[i] = i * seed;
}

__global__ void add(unsigned *sum, const unsigned *data, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    sum[i] += data[i];
}

uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = ~0ull;
  CHECK(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

int main() {
  const int count = 3000;
  const size_t bytes = count * sizeof(unsigned);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  unsigned *sum = nullptr;
  CHECK(cudaMallocAsync(&sum, bytes, stream));
  CHECK(cudaMemsetAsync(sum, 0, bytes, stream));
  for (unsigned round = 1; round <= 10; round++) {
    unsigned *scratch = nullptr;
    CHECK(cudaMallocAsync(&scratch, bytes, stream));
    fill<<<12, 256, 0, stream>>>(scratch, count, round);
    add<<<12, 256, 0, stream>>>(sum, scratch, count);
    CHECK(cudaFreeAsync(scratch, stream));
  }
  std::vector<unsigned> got(count), expected(count);
  for (int i = 0; i < count; i++)
    expected[i] = 55u * i;
  CHECK(cudaMemcpyAsync(got.data(), sum, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(sum, stream));
  CHECK(cudaStreamSynchronize(stream));
  equal("sum", got, expected);

  cudaMemPool_t pool, standard;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
  REQUIRE(pool != standard);
  uint64_t keep = UINT64_MAX;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  unsigned *first = nullptr, *second = nullptr;
  CHECK(cudaMallocFromPoolAsync(&first, bytes, pool, stream));
  CHECK(cudaMallocFromPoolAsync(&second, bytes, pool, stream));
  REQUIRE(first != second);
  fill<<<12, 256, 0, stream>>>(first, count, 7);
  CHECK(cudaMemcpyAsync(second, first, bytes, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaMemcpyAsync(got.data(), second, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; i++)
    REQUIRE(got[i] == 7u * i);
  REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemCurrent) >= 2 * bytes);
  CHECK(cudaFreeAsync(first, stream));
  CHECK(cudaFreeAsync(second, stream));
  CHECK(cudaStreamSynchronize(stream));
  REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  REQUIRE(attribute(pool, cudaMemPoolAttrUsedMemHigh) >= 2 * bytes);
  REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= 2 * bytes);
  CHECK(cudaMemPoolTrimTo(pool, 0));
  REQUIRE(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CHECK(cudaMemPoolDestroy(pool));
  CHECK(cudaStreamDestroy(stream));
  return ok();
}
