// Texture and surface objects: the driver's, described in other structures.
#include "array_format.hpp"
#include "copy_shape.hpp"
#include "core/entry.hpp"
#include "core/same.hpp"

#include <algorithm>
#include <type_traits>

using namespace emulator::runtime;

namespace {

CUDA_RESOURCE_DESC driver_resource(const cudaResourceDesc &from) {
  CUDA_RESOURCE_DESC to{};
  to.resType = static_cast<CUresourcetype>(from.resType); // the same numbers in both APIs
#if RUNTIME_MAJOR >= 13
  to.flags = from.flags;
#endif
  switch (from.resType) {
  case cudaResourceTypeArray:
    to.res.array.hArray = array_of(from.res.array.array);
    break;
  case cudaResourceTypeMipmappedArray:
    to.res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(from.res.mipmap.mipmap);
    break;
  case cudaResourceTypeLinear: {
    ChannelFormat format = format_of(from.res.linear.desc);
    to.res.linear.devPtr = device_pointer(from.res.linear.devPtr);
    to.res.linear.format = format.format;
    to.res.linear.numChannels = format.channels;
    to.res.linear.sizeInBytes = from.res.linear.sizeInBytes;
    break;
  }
  case cudaResourceTypePitch2D: {
    ChannelFormat format = format_of(from.res.pitch2D.desc);
    to.res.pitch2D.devPtr = device_pointer(from.res.pitch2D.devPtr);
    to.res.pitch2D.format = format.format;
    to.res.pitch2D.numChannels = format.channels;
    to.res.pitch2D.width = from.res.pitch2D.width;
    to.res.pitch2D.height = from.res.pitch2D.height;
    to.res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
    break;
  }
  default:
    throw Failure{cudaErrorInvalidValue};
  }
  return to;
}

cudaResourceDesc runtime_resource(const CUDA_RESOURCE_DESC &from) {
  cudaResourceDesc to{};
  to.resType = static_cast<cudaResourceType>(from.resType);
#if RUNTIME_MAJOR >= 13
  to.flags = from.flags;
#endif
  switch (from.resType) {
  case CU_RESOURCE_TYPE_ARRAY:
    to.res.array.array = reinterpret_cast<cudaArray_t>(from.res.array.hArray);
    break;
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
    to.res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(from.res.mipmap.hMipmappedArray);
    break;
  case CU_RESOURCE_TYPE_LINEAR:
    to.res.linear.devPtr = reinterpret_cast<void *>(from.res.linear.devPtr);
    to.res.linear.desc = description_of(from.res.linear.format, from.res.linear.numChannels);
    to.res.linear.sizeInBytes = from.res.linear.sizeInBytes;
    break;
  default:
    to.res.pitch2D.devPtr = reinterpret_cast<void *>(from.res.pitch2D.devPtr);
    to.res.pitch2D.desc = description_of(from.res.pitch2D.format, from.res.pitch2D.numChannels);
    to.res.pitch2D.width = from.res.pitch2D.width;
    to.res.pitch2D.height = from.res.pitch2D.height;
    to.res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
    break;
  }
  return to;
}

// Which field of the runtime's description each of the driver's flags stands for.
struct FlagField {
  unsigned flag;
  int cudaTextureDesc::*field;
};
constexpr FlagField flag_fields[] = {
    {CU_TRSF_NORMALIZED_COORDINATES, &cudaTextureDesc::normalizedCoords},
    {CU_TRSF_SRGB, &cudaTextureDesc::sRGB},
    {CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, &cudaTextureDesc::disableTrilinearOptimization},
    {CU_TRSF_SEAMLESS_CUBEMAP, &cudaTextureDesc::seamlessCubemap},
};

// Fields of the same names and, enumerations apart, types.
template <typename To, typename From> To sampling_of(const From &from) {
  To to{};
  for (int d = 0; d < 3; ++d)
    to.addressMode[d] = static_cast<std::decay_t<decltype(to.addressMode[d])>>(from.addressMode[d]);
  to.filterMode = static_cast<decltype(to.filterMode)>(from.filterMode);
  to.maxAnisotropy = from.maxAnisotropy;
  to.mipmapFilterMode = static_cast<decltype(to.mipmapFilterMode)>(from.mipmapFilterMode);
  to.mipmapLevelBias = from.mipmapLevelBias;
  to.minMipmapLevelClamp = from.minMipmapLevelClamp;
  to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  std::copy_n(from.borderColor, 4, to.borderColor);
  return to;
}

CUDA_TEXTURE_DESC driver_texture(const cudaTextureDesc &from) {
  auto to = sampling_of<CUDA_TEXTURE_DESC>(from);
  to.flags = from.readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0;
  for (const FlagField &each : flag_fields)
    to.flags |= from.*each.field ? each.flag : 0;
  return to;
}

cudaTextureDesc runtime_texture(const CUDA_TEXTURE_DESC &from) {
  auto to = sampling_of<cudaTextureDesc>(from);
  to.readMode = from.flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  for (const FlagField &each : flag_fields)
    to.*each.field = (from.flags & each.flag) != 0;
  return to;
}

// Fields of the same names; CUDA 12's own is shorter.
template <typename To, typename From> To view_of(const From &from) {
  To to{};
  to.format = static_cast<decltype(to.format)>(from.format);
  to.width = from.width;
  to.height = from.height;
  to.depth = from.depth;
  to.firstMipmapLevel = from.firstMipmapLevel;
  to.lastMipmapLevel = from.lastMipmapLevel;
  to.firstLayer = from.firstLayer;
  to.lastLayer = from.lastLayer;
  return to;
}

// What the driver tells of an object, in the runtime's structure.
template <typename Told, typename Description, typename Ask>
cudaError_t tell_of(Told *to, Told (*convert)(const Description &), Ask ask) {
  return enter(Needs::context, [&] {
    require(to != nullptr, cudaErrorInvalidValue);
    Description found;
    require(ask(&found));
    *to = convert(found);
  });
}

} // namespace

cudaError_t CUDARTAPI cudaCreateTextureObject(cudaTextureObject_t *pTexObject,
                                              const cudaResourceDesc *pResDesc,
                                              const cudaTextureDesc *pTexDesc,
                                              const cudaResourceViewDesc *pResViewDesc) {
  return enter(Needs::context, [&]() -> Result {
    require(pTexObject != nullptr && pResDesc != nullptr && pTexDesc != nullptr, cudaErrorInvalidValue);
    CUDA_RESOURCE_DESC resource = driver_resource(*pResDesc);
    CUDA_TEXTURE_DESC texture = driver_texture(*pTexDesc);
    CUDA_RESOURCE_VIEW_DESC view{};
    if (pResViewDesc)
      view = view_of<CUDA_RESOURCE_VIEW_DESC>(*pResViewDesc);
    CUtexObject made;
    require(driver.call_cuTexObjectCreate(&made, &resource, &texture, pResViewDesc ? &view : nullptr));
    *pTexObject = made;
    return CUDA_SUCCESS;
  });
}

cudaError_t CUDARTAPI cudaGetTextureObjectResourceDesc(cudaResourceDesc *pResDesc,
                                                       cudaTextureObject_t texObject) {
  return tell_of(pResDesc, runtime_resource,
                 [&](auto *found) { return driver.call_cuTexObjectGetResourceDesc(found, texObject); });
}

cudaError_t CUDARTAPI cudaGetTextureObjectTextureDesc(cudaTextureDesc *pTexDesc,
                                                      cudaTextureObject_t texObject) {
  return tell_of(pTexDesc, runtime_texture,
                 [&](auto *found) { return driver.call_cuTexObjectGetTextureDesc(found, texObject); });
}

cudaError_t CUDARTAPI cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *pResViewDesc,
                                                           cudaTextureObject_t texObject) {
  return tell_of(pResViewDesc, view_of<cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC>,
                 [&](auto *found) { return driver.call_cuTexObjectGetResourceViewDesc(found, texObject); });
}

cudaError_t CUDARTAPI cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject,
                                              const cudaResourceDesc *pResDesc) {
  return enter(Needs::context, [&]() -> Result {
    require(pSurfObject != nullptr && pResDesc != nullptr, cudaErrorInvalidValue);
    CUDA_RESOURCE_DESC resource = driver_resource(*pResDesc);
    CUsurfObject made;
    require(driver.call_cuSurfObjectCreate(&made, &resource));
    *pSurfObject = made;
    return CUDA_SUCCESS;
  });
}

cudaError_t CUDARTAPI cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *pResDesc,
                                                       cudaSurfaceObject_t surfObject) {
  return tell_of(pResDesc, runtime_resource,
                 [&](auto *found) { return driver.call_cuSurfObjectGetResourceDesc(found, surfObject); });
}

// clang-format off
FORWARD(cudaDestroyTextureObject, (cudaTextureObject_t texObject), cuTexObjectDestroy, (texObject))
FORWARD(cudaDestroySurfaceObject, (cudaSurfaceObject_t surfObject), cuSurfObjectDestroy, (surfObject))
