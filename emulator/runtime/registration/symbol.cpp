// Where the device's variables are, and the handles of registered functions.
#include "core/entry.hpp"
#include "registry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **devPtr, const void *symbol) {
  return enter(Needs::context, [&] {
    require(devPtr != nullptr, cudaErrorInvalidValue);
    *devPtr = reinterpret_cast<void *>(place_of_symbol(symbol).address);
  });
}

cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *size, const void *symbol) {
  return enter(Needs::context, [&] {
    require(size != nullptr, cudaErrorInvalidValue);
    *size = place_of_symbol(symbol).size_bytes;
  });
}

cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr) {
  return enter(Needs::context, [&] {
    require(functionPtr != nullptr, cudaErrorInvalidValue);
    return driver.call_cuKernelGetFunction(functionPtr, kernel_of(symbolPtr));
  });
}

cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
  return enter(Needs::driver, [&] {
    require(kernelPtr != nullptr, cudaErrorInvalidValue);
    *kernelPtr = kernel_of(entryFuncAddr);
  });
}
