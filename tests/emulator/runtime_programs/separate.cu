// Relocatable device code in two objects (-rdc=true), the second one made by -DSECOND.
#include "check.h"

#ifdef SECOND
__device__ int twice(int value) { return 2 * value; }
#else
__device__ int twice(int value);

__global__ void call(int *out) { *out = twice(21); }

int main() {
  int *out;
  OK(cudaMallocManaged(&out, sizeof *out));
  call<<<1, 1>>>(out);
  OK(cudaDeviceSynchronize());
  CHECK(*out == 42);
  std::puts("ok");
}
#endif
