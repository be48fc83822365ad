// Pinned host memory: allocated, or registered afterwards.
#include "core/entry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size) {
  return enter(Needs::context, [&]() -> Result {
    require(ptr != nullptr, cudaErrorInvalidValue);
    if (size == 0) {
      *ptr = nullptr;
      return cudaSuccess;
    }
    return driver.call_cuMemHostAlloc(ptr, size, 0);
  });
}

cudaError_t CUDARTAPI cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
  return enter(Needs::context, [&]() -> Result {
    require(pHost != nullptr, cudaErrorInvalidValue);
    if (size == 0) {
      *pHost = nullptr;
      return cudaSuccess;
    }
    return driver.call_cuMemHostAlloc(pHost, size, flags);
  });
}

cudaError_t CUDARTAPI cudaFreeHost(void *ptr) {
  return enter(Needs::context,
               [&]() -> Result { return ptr ? driver.call_cuMemFreeHost(ptr) : CUDA_SUCCESS; });
}

cudaError_t CUDARTAPI cudaHostRegister(void *ptr, size_t size, unsigned int flags) {
  return enter(Needs::context, [&] { return driver.call_cuMemHostRegister(ptr, size, flags); });
}

cudaError_t CUDARTAPI cudaHostUnregister(void *ptr) {
  return enter(Needs::context, [&] { return driver.call_cuMemHostUnregister(ptr); });
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags) {
  return enter(Needs::context, [&] {
    return driver.call_cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr *>(pDevice), pHost, flags);
  });
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *pFlags, void *pHost) {
  return enter(Needs::context, [&] { return driver.call_cuMemHostGetFlags(pFlags, pHost); });
}
