// What a program of the CUDA runtime does first, each step with what it answered; exits with the last answer.
#include <cuda_runtime_api.h>
#include <stdio.h>

static cudaError_t last;

static void step(const char *name, cudaError_t answer) {
  printf("%s %d %s: %s\n", name, (int)answer, cudaGetErrorName(answer), cudaGetErrorString(answer));
  last = answer;
}

int main(void) {
  int runtime = 0, driver = 0, count = -1;
  void *memory = NULL;
  cudaStream_t stream = NULL;
  step("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&runtime));
  step("cudaDriverGetVersion", cudaDriverGetVersion(&driver));
  printf("runtime %d, driver %d\n", runtime, driver);
  step("cudaGetDeviceCount", cudaGetDeviceCount(&count));
  printf("count %d\n", count);
  step("cudaMalloc", cudaMalloc(&memory, 4096));
  step("cudaStreamCreate", cudaStreamCreate(&stream));
  step("cudaMemcpy", cudaMemcpy(memory, &count, sizeof count, cudaMemcpyHostToDevice));
  step("cudaLaunchKernel",
       cudaLaunchKernel((const void *)main, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, stream));
  step("cudaDeviceSynchronize", cudaDeviceSynchronize());
  step("cudaGetLastError", cudaGetLastError());
  return last;
}
