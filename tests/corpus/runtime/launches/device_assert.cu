// covers: assert in kernels: one that holds does nothing, one that fails gives cudaErrorAssert from then on.
// outcome: FAULT reproduced: CUDA_ERROR_ASSERT
#include <cassert>

#include "../check.cuh"

__global__ void checked_root(const int *in, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(in[i] >= 0);
  int root = 0;
  while ((root + 1) * (root + 1) <= in[i])
    root++;
  assert(root * root <= in[i]);
  out[i] = root;
}

__global__ void fails(int thread) { assert(threadIdx.x != thread); }

int main() {
  std::vector<int> values(256), expected(256);
  for (int i = 0; i < 256; i++)
    values[i] = i * 5, expected[i] = (int)std::sqrt(i * 5.0);
  {
    Buffer<int> in(values), out(256);
    checked_root<<<4, 64>>>(in, out);
    equal("root", out.host(), expected);
  }
  int device = -1;
  CHECK(cudaGetDevice(&device));

  fails<<<1, 64>>>(40);
  EXPECT(cudaDeviceSynchronize(), cudaErrorAssert);
  // The error stays: nothing more can be done in this process.
  void *memory = nullptr;
  EXPECT(cudaMalloc(&memory, 16), cudaErrorAssert);
  EXPECT(cudaGetLastError(), cudaErrorAssert);
  REQUIRE(std::strcmp(cudaGetErrorString(cudaErrorAssert), "device-side assert triggered") == 0);
  std::puts("ok");
  return 0;
}
