// Filling memory with a byte.
#include "core/entry.hpp"
#include "memory/copy_shape.hpp"

using namespace emulator::runtime;

namespace {

unsigned char byte_of(int value) { return static_cast<unsigned char>(value); }

// A box as one rectangle for each slice, each as high as the box.
template <typename Fill> void in_slices(const cudaPitchedPtr &memory, const cudaExtent &extent, Fill &&fill) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0)
    return;
  require(extent.width <= memory.pitch, cudaErrorInvalidPitchValue);
  require(extent.depth == 1 || extent.height <= memory.ysize, cudaErrorInvalidValue);
  for (size_t z = 0; z < extent.depth; ++z)
    require(fill(address_of(memory.ptr) + z * memory.pitch * memory.ysize));
}

} // namespace

cudaError_t CUDARTAPI cudaMemset(void *devPtr, int value, size_t count) {
  return enter(Needs::context, [&]() -> Result {
    if (count == 0)
      return cudaSuccess;
    return driver.call_cuMemsetD8[default_stream](address_of(devPtr), byte_of(value), count);
  });
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream) {
  return enter(Needs::context, [&]() -> Result {
    if (count == 0)
      return cudaSuccess;
    return driver.call_cuMemsetD8Async[default_stream](address_of(devPtr), byte_of(value), count, stream);
  });
}

cudaError_t CUDARTAPI cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height) {
  return enter(Needs::context, [&] {
    in_slices({devPtr, pitch, width, height}, {width, height, 1}, [&](CUdeviceptr slice) {
      return driver.call_cuMemsetD2D8[default_stream](slice, pitch, byte_of(value), width, height);
    });
  });
}

cudaError_t CUDARTAPI cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height,
                                        cudaStream_t stream) {
  return enter(Needs::context, [&] {
    in_slices({devPtr, pitch, width, height}, {width, height, 1}, [&](CUdeviceptr slice) {
      return driver.call_cuMemsetD2D8Async[default_stream](slice, pitch, byte_of(value), width, height,
                                                           stream);
    });
  });
}

cudaError_t CUDARTAPI cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
  return enter(Needs::context, [&] {
    in_slices(pitchedDevPtr, extent, [&](CUdeviceptr slice) {
      return driver.call_cuMemsetD2D8[default_stream](slice, pitchedDevPtr.pitch, byte_of(value),
                                                      extent.width, extent.height);
    });
  });
}

cudaError_t CUDARTAPI cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent,
                                        cudaStream_t stream) {
  return enter(Needs::context, [&] {
    in_slices(pitchedDevPtr, extent, [&](CUdeviceptr slice) {
      return driver.call_cuMemsetD2D8Async[default_stream](slice, pitchedDevPtr.pitch, byte_of(value),
                                                           extent.width, extent.height, stream);
    });
  });
}
