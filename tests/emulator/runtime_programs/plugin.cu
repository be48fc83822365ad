// With -DPLUGIN a library with a kernel, otherwise a program that loads it (its argument) twice and unloads
// it each time.
#include "check.h"

#ifdef PLUGIN
__device__ int state = 40;
__global__ void advance(int *out) { *out = ++state; }

extern "C" int run() {
  int *memory, result = -1;
  OK(cudaMalloc(&memory, sizeof *memory));
  advance<<<1, 1>>>(memory);
  OK(cudaMemcpy(&result, memory, sizeof result, cudaMemcpyDeviceToHost));
  OK(cudaFree(memory));
  return result;
}
#else
#include <dlfcn.h>

int main(int, char **argv) {
  for (int round = 0; round < 2; ++round) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
      std::puts(dlerror());
    CHECK(library != nullptr);
    auto run = reinterpret_cast<int (*)()>(dlsym(library, "run"));
    CHECK(run() == 41); // the variables are as they were at first
    CHECK(run() == 42);
    dlclose(library);
  }
  OK(cudaDeviceSynchronize());
  std::puts("ok");
}
#endif
