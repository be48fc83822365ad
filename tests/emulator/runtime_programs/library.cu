// Libraries that a program loads itself: its argument is a file of PTX with the kernel `triple` and the
// variable `bias`.
#include "check.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

__global__ void unused() {}

int main(int, char **argv) {
  std::stringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  std::string ptx = text.str();
  cudaLibrary_t library;
  OK(cudaLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  OK(cudaLibraryGetKernelCount(&count, library));
  CHECK(count == 1);
  cudaKernel_t kernel, listed;
  OK(cudaLibraryGetKernel(&kernel, library, "triple"));
  OK(cudaLibraryEnumerateKernels(&listed, 1, library));
  CHECK(kernel == listed);
  ERROR_IS(cudaLibraryGetKernel(&listed, library, "absent"), cudaErrorSymbolNotFound);
  int *bias;
  size_t bytes;
  OK(cudaLibraryGetGlobal(reinterpret_cast<void **>(&bias), &bytes, library, "bias"));
  CHECK(bytes == sizeof(int));
  int five = 5, *memory, result;
  OK(cudaMemcpy(bias, &five, sizeof five, cudaMemcpyHostToDevice));
  OK(cudaMalloc(&memory, sizeof *memory));
  OK(cudaMemcpy(memory, &five, sizeof five, cudaMemcpyHostToDevice));
  void *arguments[] = {&memory};
  OK(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(1), dim3(1), arguments, 0, nullptr));
  OK(cudaMemcpy(&result, memory, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(result == 20);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel)));
  OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096, 0));
  OK(cudaLibraryUnload(library));
  ERROR_IS(cudaLibraryLoadFromFile(&library, "/absent", nullptr, nullptr, 0, nullptr, nullptr, 0),
           cudaErrorFileNotFound);
  ERROR_IS(cudaLibraryLoadData(&library, ".version 7.0 nonsense", nullptr, nullptr, 0, nullptr, nullptr, 0),
           cudaErrorInvalidPtx);
  OK(cudaLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaGetLastError();

  // The driver's functions by name.
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found;
  OK(cudaGetDriverEntryPoint("cuDriverGetVersion", &function, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSuccess && function != nullptr);
  int version = 0, runtime = 0, driver = 0;
  reinterpret_cast<int (*)(int *)>(function)(&version);
  OK(cudaDriverGetVersion(&driver));
  OK(cudaRuntimeGetVersion(&runtime));
  CHECK(version == driver && driver >= 12000 && runtime / 1000 == CUDART_VERSION / 1000);
  OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSuccess);
  OK(cudaGetDriverEntryPoint("cuAbsent", &function, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSymbolNotFound && function == nullptr);
  std::puts("ok");
}
