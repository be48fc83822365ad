#include "texture.hpp"

#include "array.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "memory/allocations.hpp"

using namespace emulator::driver;

namespace emulator::driver {

ViewFormat format_of_view(CUresourceViewFormat format) {
  static constexpr CUarray_format formats[] = {
      CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8,    CU_AD_FORMAT_UNSIGNED_INT16,
      CU_AD_FORMAT_SIGNED_INT16,  CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
      CU_AD_FORMAT_HALF,          CU_AD_FORMAT_FLOAT,
  };
  // From 1 on: each format with one, two and four channels.
  unsigned number = static_cast<unsigned>(format) - CU_RES_VIEW_FORMAT_UINT_1X8;
  return {formats[number / 3], 1u << (number % 3)};
}

namespace {

bool aligned(const Context &context, uint64_t value, CUdevice_attribute alignment) {
  return value % static_cast<uint64_t>(attribute_of(context.device, alignment)) == 0;
}

void require_at_most(const Context &context, uint64_t value, CUdevice_attribute limit) {
  require(value <= static_cast<uint64_t>(attribute_of(context.device, limit)), CUDA_ERROR_INVALID_VALUE);
}

} // namespace

void require_resource(Context &context, const CUDA_RESOURCE_DESC &resource) {
  require(resource.flags == 0, CUDA_ERROR_INVALID_VALUE);
  switch (resource.resType) {
  case CU_RESOURCE_TYPE_ARRAY:
    driver().arrays.get(resource.res.array.hArray, CUDA_ERROR_INVALID_HANDLE);
    return;
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
    driver().mipmapped_arrays.get(resource.res.mipmap.hMipmappedArray, CUDA_ERROR_INVALID_HANDLE);
    return;
  case CU_RESOURCE_TYPE_LINEAR: {
    const auto &linear = resource.res.linear;
    uint64_t element = element_bytes_of(linear.format, linear.numChannels);
    require(linear.devPtr != 0 && linear.sizeInBytes > 0, CUDA_ERROR_INVALID_VALUE);
    require(aligned(context, linear.devPtr, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT), CUDA_ERROR_INVALID_VALUE);
    require_at_most(context, linear.sizeInBytes / element,
                    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    require_range(context, linear.devPtr, linear.sizeInBytes, false);
    return;
  }
  case CU_RESOURCE_TYPE_PITCH2D: {
    const auto &flat = resource.res.pitch2D;
    uint64_t element = element_bytes_of(flat.format, flat.numChannels);
    require(flat.devPtr != 0 && flat.width > 0 && flat.height > 0, CUDA_ERROR_INVALID_VALUE);
    require(aligned(context, flat.devPtr, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) &&
                aligned(context, flat.pitchInBytes, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
            CUDA_ERROR_INVALID_VALUE);
    require_at_most(context, flat.width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH);
    require_at_most(context, flat.height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
    require_at_most(context, flat.pitchInBytes, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH);
    require(flat.pitchInBytes >= flat.width * element, CUDA_ERROR_INVALID_VALUE);
    require_range(context, flat.devPtr, (flat.height - 1) * flat.pitchInBytes + flat.width * element, false);
    return;
  }
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

} // namespace emulator::driver

namespace {

constexpr unsigned texture_flags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                                   CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;

bool is_array(const CUDA_RESOURCE_DESC &resource) {
  return resource.resType == CU_RESOURCE_TYPE_ARRAY || resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
}

// The descriptor of what an array resource was made with; of a mipmapped array, that of its first level.
const CUDA_ARRAY3D_DESCRIPTOR &descriptor_of(const CUDA_RESOURCE_DESC &resource, unsigned &levels) {
  levels = 1;
  if (resource.resType == CU_RESOURCE_TYPE_ARRAY)
    return driver().arrays.get(resource.res.array.hArray)->descriptor;
  auto mipmapped = driver().mipmapped_arrays.get(resource.res.mipmap.hMipmappedArray);
  levels = static_cast<unsigned>(mipmapped->levels.size());
  return mipmapped->descriptor;
}

void require_texture(const CUDA_RESOURCE_DESC &resource, const CUDA_TEXTURE_DESC &texture) {
  require((texture.flags & ~texture_flags) == 0, CUDA_ERROR_INVALID_VALUE);
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) // documented: modes are ignored
    return;
  for (CUaddress_mode mode : texture.addressMode)
    require(mode >= CU_TR_ADDRESS_MODE_WRAP && mode <= CU_TR_ADDRESS_MODE_BORDER, CUDA_ERROR_INVALID_VALUE);
  for (CUfilter_mode mode : {texture.filterMode, texture.mipmapFilterMode})
    require(mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR, CUDA_ERROR_INVALID_VALUE);
  // Documented: "for CUDA mipmapped arrays, this flag has to be set".
  require(resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ||
              (texture.flags & CU_TRSF_NORMALIZED_COORDINATES),
          CUDA_ERROR_INVALID_VALUE);
  unsigned levels;
  bool cubemap = is_array(resource) && (descriptor_of(resource, levels).Flags & CUDA_ARRAY3D_CUBEMAP);
  require(cubemap || !(texture.flags & CU_TRSF_SEAMLESS_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
}

void require_view(const CUDA_RESOURCE_DESC &resource, const CUDA_RESOURCE_VIEW_DESC &view) {
  require(is_array(resource), CUDA_ERROR_INVALID_VALUE); // documented
  require(view.format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7, CUDA_ERROR_INVALID_VALUE);
  require(view.format < CU_RES_VIEW_FORMAT_UNSIGNED_BC1, CUDA_ERROR_NOT_SUPPORTED);
  unsigned levels;
  const CUDA_ARRAY3D_DESCRIPTOR &d = descriptor_of(resource, levels);
  require(view.width == d.Width && view.height == d.Height && view.depth == d.Depth,
          CUDA_ERROR_INVALID_VALUE);
  require(view.firstMipmapLevel <= view.lastMipmapLevel && view.lastMipmapLevel < levels,
          CUDA_ERROR_INVALID_VALUE);
  bool layered = d.Flags & CUDA_ARRAY3D_LAYERED;
  require(view.firstLayer <= view.lastLayer && view.lastLayer < (layered ? d.Depth : 1),
          CUDA_ERROR_INVALID_VALUE);
  // A format of another size would change the extents, which must be those of the resource. Not yet seen on a
  // GPU (GT-ERROR-CODES): the error.
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    ViewFormat format = format_of_view(view.format);
    require(element_bytes_of(format.format, format.channels) == element_bytes_of(d.Format, d.NumChannels),
            CUDA_ERROR_INVALID_VALUE);
  }
}

} // namespace

CUresult CUDAAPI cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                                   const CUDA_TEXTURE_DESC *pTexDesc,
                                   const CUDA_RESOURCE_VIEW_DESC *pResViewDesc) {
  return enter("cuTexObjectCreate", Needs::healthy, [&](Call &call) {
    require(pTexObject != nullptr && pResDesc != nullptr && pTexDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_resource(*call.context, *pResDesc);
    require_texture(*pResDesc, *pTexDesc);
    if (pResViewDesc)
      require_view(*pResDesc, *pResViewDesc);
    auto object = std::make_shared<TextureObject>();
    object->context = call.context;
    object->resource = *pResDesc;
    object->texture = *pTexDesc;
    object->has_view = pResViewDesc != nullptr;
    if (pResViewDesc)
      object->view = *pResViewDesc;
    *pTexObject = driver().texture_objects.add(object);
  });
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texObject) {
  return enter("cuTexObjectDestroy", Needs::healthy, [&](Call &) {
    driver().texture_objects.get(texObject, CUDA_ERROR_INVALID_VALUE);
    driver().texture_objects.remove(texObject);
  });
}

CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject) {
  return enter("cuTexObjectGetResourceDesc", Needs::healthy, [&](Call &) {
    require(pResDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pResDesc = driver().texture_objects.get(texObject, CUDA_ERROR_INVALID_VALUE)->resource;
  });
}

CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject) {
  return enter("cuTexObjectGetTextureDesc", Needs::healthy, [&](Call &) {
    require(pTexDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pTexDesc = driver().texture_objects.get(texObject, CUDA_ERROR_INVALID_VALUE)->texture;
  });
}

CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                                CUtexObject texObject) {
  return enter("cuTexObjectGetResourceViewDesc", Needs::healthy, [&](Call &) {
    require(pResViewDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto object = driver().texture_objects.get(texObject, CUDA_ERROR_INVALID_VALUE);
    require(object->has_view, CUDA_ERROR_INVALID_VALUE); // documented
    *pResViewDesc = object->view;
  });
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) {
  return enter("cuSurfObjectCreate", Needs::healthy, [&](Call &call) {
    require(pSurfObject != nullptr && pResDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(pResDesc->resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE); // documented
    require_resource(*call.context, *pResDesc);
    // Documented for surface references; not yet seen on a GPU (GT-ERROR-CODES) for objects.
    auto array = driver().arrays.get(pResDesc->res.array.hArray);
    require(array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE);
    auto object = std::make_shared<SurfaceObject>();
    object->context = call.context;
    object->resource = *pResDesc;
    *pSurfObject = driver().surface_objects.add(object);
  });
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject surfObject) {
  return enter("cuSurfObjectDestroy", Needs::healthy, [&](Call &) {
    driver().surface_objects.get(surfObject, CUDA_ERROR_INVALID_VALUE);
    driver().surface_objects.remove(surfObject);
  });
}

CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject) {
  return enter("cuSurfObjectGetResourceDesc", Needs::healthy, [&](Call &) {
    require(pResDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pResDesc = driver().surface_objects.get(surfObject, CUDA_ERROR_INVALID_VALUE)->resource;
  });
}

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
                                                    unsigned numChannels, CUdevice dev) {
  return enter("cuDeviceGetTexture1DLinearMaxWidth", Needs::initialised, [&](Call &) {
    require(maxWidthInElements != nullptr, CUDA_ERROR_INVALID_VALUE);
    const Device &device = device_of(dev);
    element_bytes_of(format, numChannels); // the limit counts elements, whatever their size
    *maxWidthInElements =
        static_cast<size_t>(attribute_of(device, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
  });
}
