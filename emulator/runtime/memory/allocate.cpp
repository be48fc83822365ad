// Device, managed and pitched memory.
#include "core/entry.hpp"
#include "core/same.hpp"

using namespace emulator::runtime;

namespace {

CUdeviceptr *result_pointer(void **pointer) {
  require(pointer != nullptr, cudaErrorInvalidValue);
  return device_pointer(pointer);
}

constexpr unsigned element_size_bytes = 4; // what cudaMallocPitch assumes that a kernel reads

} // namespace

cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size) {
  return enter(Needs::context, [&]() -> Result {
    CUdeviceptr *result = result_pointer(devPtr);
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
               [&] { return driver.call_cuMemAllocManaged(result_pointer(devPtr), size, flags); });
}

cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height) {
  return enter(Needs::context, [&]() -> Result {
    CUdeviceptr *result = result_pointer(devPtr);
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
    require(driver.call_cuMemAllocPitch(result_pointer(&pitchedDevPtr->ptr), &pitchedDevPtr->pitch,
                                        extent.width, rows, element_size_bytes));
  });
}

// clang-format off
FORWARD(cudaMemGetInfo, (size_t *free, size_t *total), cuMemGetInfo, (free, total))
FORWARD(cudaMemRangeGetAttribute,
        (void *data, size_t dataSize, cudaMemRangeAttribute attribute, const void *devPtr, size_t count),
        cuMemRangeGetAttribute, (data, dataSize, *same(&attribute), device_pointer(devPtr), count))
FORWARD(cudaMemRangeGetAttributes,
        (void **data, size_t *dataSizes, cudaMemRangeAttribute *attributes, size_t numAttributes, const void *devPtr,
         size_t count),
        cuMemRangeGetAttributes,
        (data, dataSizes, same(attributes), numAttributes, device_pointer(devPtr), count))
#if CUDART_VERSION >= 13000
FORWARD(cudaMemAdvise, (const void *devPtr, size_t count, cudaMemoryAdvise advice, cudaMemLocation location),
        cuMemAdvise, (device_pointer(devPtr), count, static_cast<CUmem_advise>(advice), *same(&location)))
#else
FORWARD(cudaMemAdvise, (const void *devPtr, size_t count, cudaMemoryAdvise advice, int device),
        cuMemAdvise, (device_pointer(devPtr), count, static_cast<CUmem_advise>(advice), location_of(device)))
FORWARD(cudaMemAdvise_v2, (const void *devPtr, size_t count, cudaMemoryAdvise advice, cudaMemLocation location),
        cuMemAdvise, (device_pointer(devPtr), count, static_cast<CUmem_advise>(advice), *same(&location)))
#endif
