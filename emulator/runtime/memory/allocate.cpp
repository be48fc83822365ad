// Device, managed and pitched memory.
#include "core/entry.hpp"

using namespace emulator::runtime;

namespace {

CUdeviceptr *device_pointer(void **pointer) {
  require(pointer != nullptr, cudaErrorInvalidValue);
  return reinterpret_cast<CUdeviceptr *>(pointer);
}

constexpr unsigned element_size_bytes = 4; // what cudaMallocPitch assumes that a kernel reads

} // namespace

cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size) {
  return enter(Needs::context, [&]() -> Result {
    CUdeviceptr *result = device_pointer(devPtr);
    if (size == 0) { // the driver refuses it; the runtime gives a null pointer
      *devPtr = nullptr;
      return cudaSuccess;
    }
    return driver.call_cuMemAlloc(result, size);
  });
}

cudaError_t CUDARTAPI cudaFree(void *devPtr) {
  // cudaFree(0) is how programs make the context.
  return enter(Needs::context, [&]() -> Result {
    return devPtr ? driver.call_cuMemFree(reinterpret_cast<CUdeviceptr>(devPtr)) : CUDA_SUCCESS;
  });
}

cudaError_t CUDARTAPI cudaMallocManaged(void **devPtr, size_t size, unsigned int flags) {
  return enter(Needs::context,
               [&] { return driver.call_cuMemAllocManaged(device_pointer(devPtr), size, flags); });
}

cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height) {
  return enter(Needs::context, [&]() -> Result {
    CUdeviceptr *result = device_pointer(devPtr);
    require(pitch != nullptr, cudaErrorInvalidValue);
    if (width == 0 || height == 0) {
      *devPtr = nullptr;
      *pitch = 0;
      return cudaSuccess;
    }
    return driver.call_cuMemAllocPitch(result, pitch, width, height, element_size_bytes);
  });
}

cudaError_t CUDARTAPI cudaMalloc3D(cudaPitchedPtr *pitchedDevPtr, cudaExtent extent) {
  return enter(Needs::context, [&] {
    require(pitchedDevPtr != nullptr, cudaErrorInvalidValue);
    *pitchedDevPtr = {nullptr, 0, extent.width, extent.height};
    if (extent.width == 0 || extent.height == 0 || extent.depth == 0)
      return;
    size_t rows = 0;
    require(!__builtin_mul_overflow(extent.height, extent.depth, &rows), cudaErrorMemoryAllocation);
    require(driver.call_cuMemAllocPitch(device_pointer(&pitchedDevPtr->ptr), &pitchedDevPtr->pitch,
                                        extent.width, rows, element_size_bytes));
  });
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free, size_t *total) {
  return enter(Needs::context, [&] { return driver.call_cuMemGetInfo(free, total); });
}

cudaError_t CUDARTAPI cudaMemRangeGetAttribute(void *data, size_t dataSize, cudaMemRangeAttribute attribute,
                                               const void *devPtr, size_t count) {
  return enter(Needs::context, [&] {
    return driver.call_cuMemRangeGetAttribute(data, dataSize, static_cast<CUmem_range_attribute>(attribute),
                                              reinterpret_cast<CUdeviceptr>(devPtr), count);
  });
}

cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
                                                cudaMemRangeAttribute *attributes, size_t numAttributes,
                                                const void *devPtr, size_t count) {
  return enter(Needs::context, [&] {
    return driver.call_cuMemRangeGetAttributes(data, dataSizes,
                                               reinterpret_cast<CUmem_range_attribute *>(attributes),
                                               numAttributes, reinterpret_cast<CUdeviceptr>(devPtr), count);
  });
}
