// covers: A histogram of bytes: private counts in shared memory, merged with global atomics.
#include "../check.cuh"

__global__ void histogram(const unsigned char *data, unsigned *bins, int count) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&local[data[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    atomicAdd(&bins[i], local[i]);
}

int main() {
  const int count = 200000;
  auto values = random_values<unsigned char>(count);
  for (int i = 0; i < count / 2; i++)
    values[i] &= values[i + count / 2];
  Buffer<unsigned char> data(values);
  Buffer<unsigned> bins(256);
  bins.fill(0);
  histogram<<<20, 192>>>(data, bins, count);
  std::vector<unsigned> expected(256);
  for (unsigned char value : values)
    expected[value]++;
  equal("histogram", bins.host(), expected);
  return ok();
}
