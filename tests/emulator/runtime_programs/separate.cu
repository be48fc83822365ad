// Relocatable device code in two objects (-rdc=true); the second one is made with -DSECOND.
#include "check.h"

#ifdef SECOND
__device__ int base = 2;
__device__ int scaled(int value) { return base * value; }
#else
extern __device__ int base;
__device__ int scaled(int value);

__global__ void call(int *out) { *out = scaled(21); }

int main() {
  int *out, three = 3;
  OK(cudaMallocManaged(&out, sizeof *out));
  call<<<1, 1>>>(out);
  OK(cudaDeviceSynchronize());
  CHECK(*out == 42);
  OK(cudaMemcpyToSymbol(base, &three, sizeof three));
  call<<<1, 1>>>(out);
  OK(cudaDeviceSynchronize());
  CHECK(*out == 63);
  std::puts("ok");
}
#endif
