// covers: Launches that cannot be: each tells its error, cudaGetLastError clears it, and the next launch
// works.
#include "../check.cuh"

__global__ void write(int *out) { out[threadIdx.x] = threadIdx.x + 1; }
__global__ void __launch_bounds__(64) bounded(int *out) { out[threadIdx.x] = 7; }

int main() {
  Buffer<int> out(1024);
  out.fill(0);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  write<<<1, properties.maxThreadsPerBlock + 1>>>(out);
  EXPECT(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError(), cudaSuccess);
  write<<<0, 32>>>(out);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  write<<<1, 0>>>(out);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  write<<<dim3(1, 65536, 1), 32>>>(out);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  write<<<dim3(1, 1, 65536), 32>>>(out);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  write<<<1, dim3(1, 1, 65)>>>(out);
  EXPECT(cudaGetLastError(), cudaErrorInvalidConfiguration);
  write<<<1, 32, properties.sharedMemPerBlockOptin + 1>>>(out);
  REQUIRE(cudaGetLastError() != cudaSuccess);
  bounded<<<1, 65>>>(out);
  REQUIRE(cudaGetLastError() != cudaSuccess);
  CHECK(cudaDeviceSynchronize());
  equal("nothing ran", out.host(), std::vector<int>(1024, 0));

  // An error of the call that is not sticky stays the last error over calls that succeed.
  EXPECT(cudaSetDevice(1000), cudaErrorInvalidDevice);
  CHECK(cudaDeviceSynchronize());
  EXPECT(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError(), cudaErrorInvalidDevice);

  write<<<1, properties.maxThreadsPerBlock>>>(out);
  CHECK(cudaGetLastError());
  std::vector<int> expected(1024);
  for (int i = 0; i < 1024; i++)
    expected[i] = i + 1;
  equal("the next launch", out.host(), expected);
  return ok();
}
