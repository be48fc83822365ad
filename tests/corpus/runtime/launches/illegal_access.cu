// covers: A kernel that writes out of bounds: cudaErrorIllegalAddress, which stays until the device is reset.
// outcome: FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS
#include "../check.cuh"

__global__ void write(int *out, size_t index) { out[index] = 1; }

int main() {
  int *data = nullptr, *other = nullptr;
  CHECK(cudaMalloc(&data, 64 * sizeof(int)));
  write<<<1, 1>>>(data, 63);
  CHECK(cudaDeviceSynchronize());
  write<<<1, 1>>>(data, size_t(1) << 50);
  CHECK(cudaPeekAtLastError());
  EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT(cudaMalloc(&other, 64), cudaErrorIllegalAddress);
  EXPECT(cudaMemset(data, 0, 64), cudaErrorIllegalAddress);
  int value = 0;
  EXPECT(cudaMemcpy(&value, data, sizeof(int), cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
  write<<<1, 1>>>(data, 0);
  EXPECT(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  std::puts("ok");
  return 0;
}
