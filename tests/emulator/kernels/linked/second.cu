#include <cstdio>

__device__ int counter = 100;
__constant__ float scale[4] = {1, 2, 3, 4};
static __device__ int hidden = 1000;
static __device__ int helper(int x) { return x * hidden; }
__device__ float twice(float x) { return 2 * x; }

__global__ void second(float *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    o[i] += helper(1);
  atomicAdd(&counter, 1);
}

void launch_second(float *o, int n) { second<<<2, 32>>>(o, n); }

int count() {
  int c;
  cudaMemcpyFromSymbol(&c, counter, sizeof c);
  return c;
}
