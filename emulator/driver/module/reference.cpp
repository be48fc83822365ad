#include "reference.hpp"

#include "array/array.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "memory/allocations.hpp"
#include "module.hpp"

#include <algorithm>

namespace emulator::driver {

std::shared_ptr<const Texture> TextureReference::sampled(std::string &problem) const {
  if (bound)
    return driver::sampled(object, problem);
  problem = "a texture reference that nothing is bound to";
  return nullptr;
}

std::shared_ptr<const Surface> SurfaceReference::accessed(std::string &problem) const {
  if (bound)
    return driver::accessed(resource, problem);
  problem = "a surface reference that nothing is bound to";
  return nullptr;
}

template <typename References>
static auto reference_at(const References &references, const Context &context, uint64_t variable) {
  decltype(references.find(nullptr)) found;
  references.for_each([&](const auto &reference) {
    if (variable != 0 && reference->variable == variable && reference->context == &context)
      found = reference;
  });
  return found;
}

std::shared_ptr<TextureReference> texture_reference_at(const Context &context, uint64_t variable) {
  return reference_at(driver().texture_references, context, variable);
}

std::shared_ptr<SurfaceReference> surface_reference_at(const Context &context, uint64_t variable) {
  return reference_at(driver().surface_references, context, variable);
}

void forget_references(const LoadedModule &module) {
  auto owned = [&](const auto &reference) { return reference.module == &module; };
  driver().texture_references.remove_if(owned);
  driver().surface_references.remove_if(owned);
}

} // namespace emulator::driver

using namespace emulator::driver;

namespace {

// The address of the opaque variable of this kind. CUDA_ERROR_NOT_FOUND when there is none.
uint64_t variable_of(const LoadedModule &module, const char *name, emulator::OpaqueKind kind) {
  for (const auto &global : module.instance->module().globals())
    if (global.name == name && global.opaque == kind)
      return module.instance->global_address(name);
  fail(CUDA_ERROR_NOT_FOUND);
}

// The reference of a variable: one, however often it is asked for.
template <typename Reference, typename Handle, typename References, typename At>
Handle reference_of(References &references, At at, const LoadedModule &module, const char *name,
                    emulator::OpaqueKind kind) {
  uint64_t variable = variable_of(module, name, kind);
  if (auto known = at(*module.context, variable))
    return handle_of<Handle>(known.get());
  auto made = std::make_shared<Reference>();
  made->context = module.context;
  made->module = &module;
  made->variable = variable;
  return references.add(made);
}

// Calls the body with the texture reference.
template <typename Body> CUresult with(const char *function, CUtexref handle, Body &&body) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto reference = driver().texture_references.get(handle, CUDA_ERROR_INVALID_VALUE);
    body(*call.context, *reference);
  });
}

void bind_to(Context &context, TextureReference &reference, const CUDA_RESOURCE_DESC &resource) {
  require_resource(context, resource);
  reference.object.resource = resource;
  reference.bound = true;
}

void take_format(TextureReference &reference, const CUDA_ARRAY3D_DESCRIPTOR &descriptor) {
  reference.format = descriptor.Format;
  reference.channels = static_cast<int>(descriptor.NumChannels);
}

void require_kind(const TextureReference &reference, CUresourcetype kind) {
  require(reference.bound && reference.object.resource.resType == kind, CUDA_ERROR_INVALID_VALUE);
}

} // namespace

CUresult CUDAAPI cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name) {
  return enter("cuModuleGetTexRef", Needs::healthy, [&](Call &) {
    require(pTexRef != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pTexRef = reference_of<TextureReference, CUtexref>(driver().texture_references, texture_reference_at,
                                                        *driver().modules.get(hmod), name,
                                                        emulator::OpaqueKind::texture);
  });
}

CUresult CUDAAPI cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name) {
  return enter("cuModuleGetSurfRef", Needs::healthy, [&](Call &) {
    require(pSurfRef != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pSurfRef = reference_of<SurfaceReference, CUsurfref>(driver().surface_references, surface_reference_at,
                                                          *driver().modules.get(hmod), name,
                                                          emulator::OpaqueKind::surface);
  });
}

CUresult CUDAAPI cuTexRefCreate(CUtexref *pTexRef) {
  return enter("cuTexRefCreate", Needs::healthy, [&](Call &call) {
    require(pTexRef != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto made = std::make_shared<TextureReference>();
    made->context = call.context;
    *pTexRef = driver().texture_references.add(made);
  });
}

CUresult CUDAAPI cuTexRefDestroy(CUtexref hTexRef) {
  return with("cuTexRefDestroy", hTexRef, [](Context &, TextureReference &reference) {
    require(reference.module == nullptr, CUDA_ERROR_INVALID_VALUE); // that of a module ends with it
    driver().texture_references.remove(&reference);
  });
}

CUresult CUDAAPI cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
  return with("cuTexRefSetArray", hTexRef, [&](Context &context, TextureReference &reference) {
    require(Flags == CU_TRSA_OVERRIDE_FORMAT, CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = hArray;
    bind_to(context, reference, resource);
    take_format(reference, driver().arrays.get(hArray)->descriptor);
  });
}

CUresult CUDAAPI cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                           unsigned int Flags) {
  return with("cuTexRefSetMipmappedArray", hTexRef, [&](Context &context, TextureReference &reference) {
    require(Flags == CU_TRSA_OVERRIDE_FORMAT, CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = hMipmappedArray;
    bind_to(context, reference, resource);
    take_format(reference, driver().mipmapped_arrays.get(hMipmappedArray)->descriptor);
  });
}

CUresult CUDAAPI cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes) {
  return with("cuTexRefSetAddress_v2", hTexRef, [&](Context &context, TextureReference &reference) {
    uint64_t alignment =
        static_cast<uint64_t>(attribute_of(context.device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
    uint64_t offset = dptr % alignment;
    // The program adds what is missing to its coordinates.
    require(offset == 0 || ByteOffset != nullptr, CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = dptr - offset;
    resource.res.linear.format = reference.format;
    resource.res.linear.numChannels = static_cast<unsigned>(reference.channels);
    resource.res.linear.sizeInBytes = bytes + offset;
    bind_to(context, reference, resource);
    if (ByteOffset)
      *ByteOffset = offset;
  });
}

CUresult CUDAAPI cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                         CUdeviceptr dptr, size_t Pitch) {
  return with("cuTexRefSetAddress2D_v3", hTexRef, [&](Context &context, TextureReference &reference) {
    require(desc != nullptr, CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D.devPtr = dptr;
    resource.res.pitch2D.format = desc->Format;
    resource.res.pitch2D.numChannels = desc->NumChannels;
    resource.res.pitch2D.width = desc->Width;
    resource.res.pitch2D.height = desc->Height;
    resource.res.pitch2D.pitchInBytes = Pitch;
    bind_to(context, reference, resource);
    reference.format = desc->Format;
    reference.channels = static_cast<int>(desc->NumChannels);
  });
}

CUresult CUDAAPI cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
  return with("cuTexRefSetFormat", hTexRef, [&](Context &, TextureReference &reference) {
    require(NumPackedComponents > 0, CUDA_ERROR_INVALID_VALUE);
    element_bytes_of(fmt, static_cast<unsigned>(NumPackedComponents));
    reference.format = fmt;
    reference.channels = NumPackedComponents;
    if (reference.bound && reference.object.resource.resType == CU_RESOURCE_TYPE_LINEAR) {
      reference.object.resource.res.linear.format = fmt;
      reference.object.resource.res.linear.numChannels = static_cast<unsigned>(NumPackedComponents);
    }
  });
}

CUresult CUDAAPI cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
  return with("cuTexRefSetAddressMode", hTexRef, [&](Context &, TextureReference &reference) {
    require(dim >= 0 && dim < 3 && am >= CU_TR_ADDRESS_MODE_WRAP && am <= CU_TR_ADDRESS_MODE_BORDER,
            CUDA_ERROR_INVALID_VALUE);
    reference.object.texture.addressMode[dim] = am;
  });
}

static void set_filter(CUfilter_mode &mode, CUfilter_mode to) {
  require(to == CU_TR_FILTER_MODE_POINT || to == CU_TR_FILTER_MODE_LINEAR, CUDA_ERROR_INVALID_VALUE);
  mode = to;
}

CUresult CUDAAPI cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
  return with("cuTexRefSetFilterMode", hTexRef, [&](Context &, TextureReference &reference) {
    set_filter(reference.object.texture.filterMode, fm);
  });
}

CUresult CUDAAPI cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
  return with("cuTexRefSetMipmapFilterMode", hTexRef, [&](Context &, TextureReference &reference) {
    set_filter(reference.object.texture.mipmapFilterMode, fm);
  });
}

CUresult CUDAAPI cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias) {
  return with("cuTexRefSetMipmapLevelBias", hTexRef, [&](Context &, TextureReference &reference) {
    reference.object.texture.mipmapLevelBias = bias;
  });
}

CUresult CUDAAPI cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
                                             float maxMipmapLevelClamp) {
  return with("cuTexRefSetMipmapLevelClamp", hTexRef, [&](Context &, TextureReference &reference) {
    reference.object.texture.minMipmapLevelClamp = minMipmapLevelClamp;
    reference.object.texture.maxMipmapLevelClamp = maxMipmapLevelClamp;
  });
}

CUresult CUDAAPI cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso) {
  return with("cuTexRefSetMaxAnisotropy", hTexRef, [&](Context &, TextureReference &reference) {
    reference.object.texture.maxAnisotropy = maxAniso;
  });
}

CUresult CUDAAPI cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor) {
  return with("cuTexRefSetBorderColor", hTexRef, [&](Context &, TextureReference &reference) {
    require(pBorderColor != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::copy_n(pBorderColor, 4, reference.object.texture.borderColor);
  });
}

CUresult CUDAAPI cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags) {
  return with("cuTexRefSetFlags", hTexRef, [&](Context &, TextureReference &reference) {
    constexpr unsigned valid = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                               CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
    require((Flags & ~valid) == 0, CUDA_ERROR_INVALID_VALUE);
    reference.object.texture.flags = Flags;
  });
}

CUresult CUDAAPI cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef) {
  return with("cuTexRefGetAddress_v2", hTexRef, [&](Context &, TextureReference &reference) {
    require(pdptr != nullptr && reference.bound, CUDA_ERROR_INVALID_VALUE);
    const CUDA_RESOURCE_DESC &resource = reference.object.resource;
    bool flat = resource.resType == CU_RESOURCE_TYPE_PITCH2D;
    require(flat || resource.resType == CU_RESOURCE_TYPE_LINEAR, CUDA_ERROR_INVALID_VALUE);
    *pdptr = flat ? resource.res.pitch2D.devPtr : resource.res.linear.devPtr;
  });
}

CUresult CUDAAPI cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef) {
  return with("cuTexRefGetArray", hTexRef, [&](Context &, TextureReference &reference) {
    require(phArray != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_kind(reference, CU_RESOURCE_TYPE_ARRAY);
    *phArray = reference.object.resource.res.array.hArray;
  });
}

CUresult CUDAAPI cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef) {
  return with("cuTexRefGetMipmappedArray", hTexRef, [&](Context &, TextureReference &reference) {
    require(phMipmappedArray != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_kind(reference, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
    *phMipmappedArray = reference.object.resource.res.mipmap.hMipmappedArray;
  });
}

CUresult CUDAAPI cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim) {
  return with("cuTexRefGetAddressMode", hTexRef, [&](Context &, TextureReference &reference) {
    require(pam != nullptr && dim >= 0 && dim < 3, CUDA_ERROR_INVALID_VALUE);
    *pam = reference.object.texture.addressMode[dim];
  });
}

CUresult CUDAAPI cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
  return with("cuTexRefGetFilterMode", hTexRef, [&](Context &, TextureReference &reference) {
    require(pfm != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pfm = reference.object.texture.filterMode;
  });
}

CUresult CUDAAPI cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef) {
  return with("cuTexRefGetFormat", hTexRef, [&](Context &, TextureReference &reference) {
    if (pFormat) // documented: either may be null
      *pFormat = reference.format;
    if (pNumChannels)
      *pNumChannels = reference.channels;
  });
}

CUresult CUDAAPI cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
  return with("cuTexRefGetMipmapFilterMode", hTexRef, [&](Context &, TextureReference &reference) {
    require(pfm != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pfm = reference.object.texture.mipmapFilterMode;
  });
}

CUresult CUDAAPI cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef) {
  return with("cuTexRefGetMipmapLevelBias", hTexRef, [&](Context &, TextureReference &reference) {
    require(pbias != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pbias = reference.object.texture.mipmapLevelBias;
  });
}

CUresult CUDAAPI cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                             CUtexref hTexRef) {
  return with("cuTexRefGetMipmapLevelClamp", hTexRef, [&](Context &, TextureReference &reference) {
    require(pminMipmapLevelClamp != nullptr && pmaxMipmapLevelClamp != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pminMipmapLevelClamp = reference.object.texture.minMipmapLevelClamp;
    *pmaxMipmapLevelClamp = reference.object.texture.maxMipmapLevelClamp;
  });
}

CUresult CUDAAPI cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef) {
  return with("cuTexRefGetMaxAnisotropy", hTexRef, [&](Context &, TextureReference &reference) {
    require(pmaxAniso != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pmaxAniso = static_cast<int>(reference.object.texture.maxAnisotropy);
  });
}

CUresult CUDAAPI cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef) {
  return with("cuTexRefGetBorderColor", hTexRef, [&](Context &, TextureReference &reference) {
    require(pBorderColor != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::copy_n(reference.object.texture.borderColor, 4, pBorderColor);
  });
}

CUresult CUDAAPI cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef) {
  return with("cuTexRefGetFlags", hTexRef, [&](Context &, TextureReference &reference) {
    require(pFlags != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pFlags = reference.object.texture.flags;
  });
}

CUresult CUDAAPI cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
  return enter("cuSurfRefSetArray", Needs::healthy, [&](Call &call) {
    auto reference = driver().surface_references.get(hSurfRef, CUDA_ERROR_INVALID_VALUE);
    require(Flags == 0, CUDA_ERROR_INVALID_VALUE); // documented
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = hArray;
    require_resource(*call.context, resource);
    require(driver().arrays.get(hArray)->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST,
            CUDA_ERROR_INVALID_VALUE);
    reference->resource = resource;
    reference->bound = true;
  });
}

CUresult CUDAAPI cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef) {
  return enter("cuSurfRefGetArray", Needs::healthy, [&](Call &) {
    auto reference = driver().surface_references.get(hSurfRef, CUDA_ERROR_INVALID_VALUE);
    require(phArray != nullptr && reference->bound, CUDA_ERROR_INVALID_VALUE);
    *phArray = reference->resource.res.array.hArray;
  });
}
