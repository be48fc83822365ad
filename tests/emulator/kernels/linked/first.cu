// One of two sources built with -rdc=true: what it uses is defined in second.cu.
#include <cstdio>

extern __device__ int counter;
extern __constant__ float scale[4];
__device__ float twice(float x);
static __device__ int hidden = 3; // second.cu has one of its own
static __device__ int helper(int x) { return x + hidden; }

__global__ void first(float *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    o[i] = twice(o[i]) * scale[i & 3] + helper(i);
  atomicAdd(&counter, 1);
}

void launch_second(float *o, int n);
int count();

int main() {
  float h[64], *o;
  for (int i = 0; i < 64; i++)
    h[i] = i;
  cudaMalloc(&o, sizeof h);
  cudaMemcpy(o, h, sizeof h, cudaMemcpyHostToDevice);
  first<<<2, 32>>>(o, 64);
  launch_second(o, 64);
  cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
  printf("%s %g %g %g %d\n", cudaGetErrorString(cudaGetLastError()), h[0], h[1], h[63], count());
}
