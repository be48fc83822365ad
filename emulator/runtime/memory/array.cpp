// Arrays, plain and mipmapped.
#include "array_format.hpp"
#include "copy_shape.hpp"
#include "core/entry.hpp"
#include "core/same.hpp"

using namespace emulator::runtime;

namespace {

CUDA_ARRAY3D_DESCRIPTOR driver_description(const cudaChannelFormatDesc *format, cudaExtent extent,
                                           unsigned flags) {
  require(format != nullptr, cudaErrorInvalidValue);
  ChannelFormat channels = format_of(*format);
  CUDA_ARRAY3D_DESCRIPTOR description{};
  description.Width = extent.width;
  description.Height = extent.height;
  description.Depth = extent.depth;
  description.Format = channels.format;
  description.NumChannels = channels.channels;
  description.Flags = flags; // the same bits in both APIs
  return description;
}

Result make_array(cudaArray_t *array, const cudaChannelFormatDesc *format, cudaExtent extent,
                  unsigned flags) {
  require(array != nullptr, cudaErrorInvalidValue);
  CUDA_ARRAY3D_DESCRIPTOR description = driver_description(format, extent, flags);
  return driver.call_cuArray3DCreate(reinterpret_cast<CUarray *>(array), &description);
}

CUmipmappedArray mipmapped(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

} // namespace

cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

cudaError_t CUDARTAPI cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, size_t width,
                                      size_t height, unsigned int flags) {
  return enter(Needs::context, [&] { return make_array(array, desc, {width, height, 0}, flags); });
}

cudaError_t CUDARTAPI cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *desc,
                                        cudaExtent extent, unsigned int flags) {
  return enter(Needs::context, [&] { return make_array(array, desc, extent, flags); });
}

cudaError_t CUDARTAPI cudaFreeArray(cudaArray_t array) {
  return enter(Needs::context, [&]() -> Result {
    return array ? driver.call_cuArrayDestroy(array_of(array)) : CUDA_SUCCESS;
  });
}

cudaError_t CUDARTAPI cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned int *flags,
                                       cudaArray_t array) {
  return enter(Needs::context, [&] {
    CUDA_ARRAY3D_DESCRIPTOR description{};
    require(driver.call_cuArray3DGetDescriptor(&description, array_of(array)));
    if (desc)
      *desc = description_of(description.Format, description.NumChannels);
    if (extent)
      *extent = {description.Width, description.Height, description.Depth};
    if (flags)
      *flags = description.Flags;
  });
}

cudaError_t CUDARTAPI cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t array) {
  return enter(Needs::context, [&] {
    require(desc != nullptr, cudaErrorInvalidValue);
    CUDA_ARRAY3D_DESCRIPTOR description{};
    require(driver.call_cuArray3DGetDescriptor(&description, array_of(array)));
    *desc = description_of(description.Format, description.NumChannels);
  });
}

cudaError_t CUDARTAPI cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                               const cudaChannelFormatDesc *desc, cudaExtent extent,
                                               unsigned int numLevels, unsigned int flags) {
  return enter(Needs::context, [&] {
    CUDA_ARRAY3D_DESCRIPTOR description = driver_description(desc, extent, flags);
    return driver.call_cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray *>(mipmappedArray),
                                              &description, numLevels);
  });
}

cudaError_t CUDARTAPI cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray) {
  return enter(Needs::context, [&]() -> Result {
    return mipmappedArray ? driver.call_cuMipmappedArrayDestroy(mipmapped(mipmappedArray)) : CUDA_SUCCESS;
  });
}

// clang-format off
FORWARD(cudaGetMipmappedArrayLevel,
        (cudaArray_t *levelArray, cudaMipmappedArray_const_t mipmappedArray, unsigned int level),
        cuMipmappedArrayGetLevel, (reinterpret_cast<CUarray *>(levelArray), mipmapped(mipmappedArray), level))
FORWARD(cudaArrayGetPlane, (cudaArray_t *pPlaneArray, cudaArray_t hArray, unsigned int planeIdx),
        cuArrayGetPlane, (reinterpret_cast<CUarray *>(pPlaneArray), array_of(hArray), planeIdx))
FORWARD(cudaArrayGetMemoryRequirements,
        (cudaArrayMemoryRequirements *memoryRequirements, cudaArray_t array, int device),
        cuArrayGetMemoryRequirements, (same(memoryRequirements), array_of(array), device_of(device)))
FORWARD(cudaMipmappedArrayGetMemoryRequirements,
        (cudaArrayMemoryRequirements *memoryRequirements, cudaMipmappedArray_t mipmap, int device),
        cuMipmappedArrayGetMemoryRequirements, (same(memoryRequirements), mipmapped(mipmap), device_of(device)))
FORWARD(cudaArrayGetSparseProperties, (cudaArraySparseProperties *sparseProperties, cudaArray_t array),
        cuArrayGetSparseProperties, (same(sparseProperties), array_of(array)))
FORWARD(cudaMipmappedArrayGetSparseProperties,
        (cudaArraySparseProperties *sparseProperties, cudaMipmappedArray_t mipmap),
        cuMipmappedArrayGetSparseProperties, (same(sparseProperties), mipmapped(mipmap)))
