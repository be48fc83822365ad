// Takes driver functions through the runtime's entry point lookup and mixes them with runtime calls.
#include <cstdio>
#include <cstdlib>
#include <cuda.h>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    int error = (int)(call);                                                                                 \
    if (error != 0) {                                                                                        \
      fprintf(stderr, "entry_point: %s gives %d\n", #call, error);                                           \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

__global__ void fill(unsigned *values, unsigned count, unsigned value) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = value + i;
}

template <typename Function> static Function look_up(const char *name) {
  void *address = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 13000
  CHECK(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &result));
#else
  CHECK(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &result));
#endif
  if (!address) {
    fprintf(stderr, "entry_point: the driver has no %s\n", name);
    exit(1);
  }
  return (Function)address;
}

int main() {
  typedef CUresult (*LaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   unsigned, CUstream, void **, void **);
  typedef CUresult (*CopyToHost)(void *, CUdeviceptr, size_t);
  unsigned *values, count = 5000;
  static unsigned host[5000];
  CHECK(cudaMalloc(&values, count * sizeof(unsigned)));
  LaunchKernel launch = look_up<LaunchKernel>("cuLaunchKernel");
  CopyToHost copy = look_up<CopyToHost>("cuMemcpyDtoH");
  cudaFunction_t function;
  CHECK(cudaGetFuncBySymbol(&function, (const void *)fill));
  for (unsigned round = 1; round <= 3; round++) {
    unsigned value = round * 1000;
    void *parameters[] = {&values, &count, &value};
    CHECK(
        launch((CUfunction)function, (count + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(copy(host, (CUdeviceptr)values, sizeof host));
    for (unsigned i = 0; i < count; i++)
      if (host[i] != value + i) {
        fprintf(stderr, "entry_point: round %u: values[%u] is %u\n", round, i, host[i]);
        return 1;
      }
  }
  CHECK(cudaFree(values));
  printf("entry_point: all correct\n");
  return 0;
}
