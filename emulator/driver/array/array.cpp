#include "array.hpp"

#include "core/heap.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

constexpr unsigned described_flags = 0x1FF; // every CUDA_ARRAY3D_* of the headers
constexpr unsigned supported_flags =
    CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;

bool has(const CUDA_ARRAY3D_DESCRIPTOR &descriptor, unsigned flag) { return descriptor.Flags & flag; }

// The shapes and sizes that cuArray3DCreate documents; `mipmapped` has smaller limits in one and two
// dimensions.
void require_shape(const Device &device, const CUDA_ARRAY3D_DESCRIPTOR &d, bool mipmapped) {
  auto within = [&](size_t value, CUdevice_attribute limit) {
    require(value <= static_cast<uint64_t>(attribute_of(device, limit)), CUDA_ERROR_INVALID_VALUE);
  };
  bool surface = has(d, CUDA_ARRAY3D_SURFACE_LDST), layered = has(d, CUDA_ARRAY3D_LAYERED);
  require(d.Width > 0, CUDA_ERROR_INVALID_VALUE);
  require(!has(d, CUDA_ARRAY3D_TEXTURE_GATHER) || (d.Height > 0 && d.Depth == 0), CUDA_ERROR_INVALID_VALUE);
  if (has(d, CUDA_ARRAY3D_CUBEMAP)) {
    require(d.Width == d.Height && d.Depth > 0 && (layered ? d.Depth % 6 == 0 : d.Depth == 6),
            CUDA_ERROR_INVALID_VALUE);
    within(d.Width, surface ? CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH
                            : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
    within(d.Depth, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS);
  } else if (layered) {
    require(d.Depth > 0, CUDA_ERROR_INVALID_VALUE);
    within(d.Width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH);
    within(d.Height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT);
    within(d.Depth, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS);
  } else if (d.Depth > 0) {
    require(d.Height > 0, CUDA_ERROR_INVALID_VALUE);
    bool ordinary = d.Width <= 16384 && d.Height <= 16384 && d.Depth <= 16384;
    if (!ordinary) { // the alternate shape trades width and height for depth
      require(!surface, CUDA_ERROR_INVALID_VALUE);
      within(d.Width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE);
      within(d.Height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE);
      within(d.Depth, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE);
    }
  } else if (d.Height > 0) {
    within(d.Width, mipmapped ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH
                              : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
    within(d.Height, mipmapped ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT
                               : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
  } else {
    within(d.Width, mipmapped ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
                    : surface ? CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH
                              : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
  }
}

std::shared_ptr<CudaArray> new_array(Context &context, const CUDA_ARRAY3D_DESCRIPTOR &descriptor) {
  auto array = std::make_shared<CudaArray>();
  array->context = &context;
  array->descriptor = descriptor;
  array->element_bytes = element_bytes_of(descriptor.Format, descriptor.NumChannels);
  return array;
}

void require_descriptor(const Device &device, const CUDA_ARRAY3D_DESCRIPTOR &descriptor, bool mipmapped) {
  require((descriptor.Flags & ~described_flags) == 0, CUDA_ERROR_INVALID_VALUE);
  element_bytes_of(descriptor.Format, descriptor.NumChannels);
  require((descriptor.Flags & ~supported_flags) == 0, CUDA_ERROR_NOT_SUPPORTED);
  require_shape(device, descriptor, mipmapped);
}

CUarray create_array(Context &context, const CUDA_ARRAY3D_DESCRIPTOR &descriptor) {
  require_descriptor(context.device, descriptor, false);
  auto array = new_array(context, descriptor);
  array->storage = std::make_shared<ArrayStorage>(context.device, array->bytes());
  array->base = array->storage->base;
  return driver().arrays.add(array);
}

size_t halved(size_t extent, unsigned level) {
  return extent == 0 ? 0 : std::max<size_t>(extent >> level, 1);
}

} // namespace

uint32_t element_bytes_of(CUarray_format format, unsigned channels) {
  require(channels == 1 || channels == 2 || channels == 4, CUDA_ERROR_INVALID_VALUE);
  int number = static_cast<int>(format);
  switch (number) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT8:
    return channels;
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_HALF:
    return 2 * channels;
  case CU_AD_FORMAT_UNSIGNED_INT32:
  case CU_AD_FORMAT_SIGNED_INT32:
  case CU_AD_FORMAT_FLOAT:
    return 4 * channels;
  default:
    break;
  }
  // Normalised integers, 8 bits from 0xC0 and 0xC6, 16 bits from 0xC3 and 0xC9: 1, 2 and 4 channels in turn.
  if (number >= 0xC0 && number <= 0xCB) {
    require(channels == 1u << ((number - 0xC0) % 3), CUDA_ERROR_INVALID_VALUE);
    return ((number - 0xC0) / 3 % 2 ? 2 : 1) * channels;
  }
  bool described = number == 0x50 || (number >= 0x91 && number <= 0xB5);
  fail(described ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
}

ArrayStorage::ArrayStorage(Device &owner, uint64_t bytes) : device(owner) {
  require(bytes <= device.total_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  footprint = Heap::footprint(bytes);
  device.take(footprint);
  base = device.heap->allocate(bytes);
  if (base == 0) {
    device.give_back(footprint);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
}

ArrayStorage::~ArrayStorage() {
  device.heap->release(base);
  device.give_back(footprint);
}

CopySide array_side(CUarray handle, uint64_t x_bytes, uint64_t y, uint64_t z, const CopyShape &shape) {
  auto array = driver().arrays.get(handle, CUDA_ERROR_INVALID_HANDLE);
  CopySide side;
  side.base = array->base;
  side.storage = array->storage;
  if (shape.width_bytes == 0 || shape.height == 0 || shape.depth == 0)
    return side;
  auto fits = [](uint64_t start, uint64_t length, uint64_t limit) {
    return start <= limit && length <= limit - start;
  };
  require(x_bytes % array->element_bytes == 0 && shape.width_bytes % array->element_bytes == 0,
          CUDA_ERROR_INVALID_VALUE);
  require(fits(x_bytes, shape.width_bytes, array->row_bytes()) && fits(y, shape.height, array->rows()) &&
              fits(z, shape.depth, array->slices()),
          CUDA_ERROR_INVALID_VALUE);
  side.pitch_bytes = array->row_bytes();
  side.slice_bytes = array->row_bytes() * array->rows();
  side.base += z * side.slice_bytes + y * side.pitch_bytes + x_bytes;
  return side;
}

CopySide linear_array_side(CUarray handle, uint64_t offset_bytes, uint64_t bytes) {
  auto array = driver().arrays.get(handle, CUDA_ERROR_INVALID_HANDLE);
  require(array->is_one_dimensional(), CUDA_ERROR_INVALID_VALUE);
  return array_side(handle, offset_bytes, 0, 0, {bytes, 1, 1});
}

} // namespace emulator::driver

using namespace emulator::driver;

CUresult CUDAAPI cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
  return enter("cuArrayCreate_v2", Needs::healthy, [&](Call &call) {
    require(pHandle != nullptr && pAllocateArray != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto &flat = *pAllocateArray;
    *pHandle = create_array(*call.context, {flat.Width, flat.Height, 0, flat.Format, flat.NumChannels, 0});
  });
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
  return enter("cuArray3DCreate_v2", Needs::healthy, [&](Call &call) {
    require(pHandle != nullptr && pAllocateArray != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pHandle = create_array(*call.context, *pAllocateArray);
  });
}

CUresult CUDAAPI cuArrayDestroy(CUarray hArray) {
  return enter("cuArrayDestroy", Needs::healthy, [&](Call &) {
    auto array = driver().arrays.get(hArray, CUDA_ERROR_INVALID_HANDLE);
    // A level ends with its mipmapped array. Not yet seen on a GPU (GT-ERROR-CODES): the error.
    require(!array->is_level, CUDA_ERROR_INVALID_VALUE);
    driver().arrays.remove(array.get()); // queued copies keep the storage
  });
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  return enter("cuArrayGetDescriptor_v2", Needs::healthy, [&](Call &) {
    require(pArrayDescriptor != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto &full = driver().arrays.get(hArray, CUDA_ERROR_INVALID_HANDLE)->descriptor;
    *pArrayDescriptor = {full.Width, full.Height, full.Format, full.NumChannels};
  });
}

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  return enter("cuArray3DGetDescriptor_v2", Needs::healthy, [&](Call &) {
    require(pArrayDescriptor != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pArrayDescriptor = driver().arrays.get(hArray, CUDA_ERROR_INVALID_HANDLE)->descriptor;
  });
}

CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                              CUarray array, CUdevice device) {
  return enter("cuArrayGetMemoryRequirements", Needs::healthy, [&](Call &) {
    require(memoryRequirements != nullptr, CUDA_ERROR_INVALID_VALUE);
    device_of(device);
    driver().arrays.get(array, CUDA_ERROR_INVALID_HANDLE);
    fail(CUDA_ERROR_INVALID_VALUE); // documented: for arrays with deferred mapping, which there are none of
  });
}

CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array) {
  return enter("cuArrayGetSparseProperties", Needs::healthy, [&](Call &) {
    require(sparseProperties != nullptr, CUDA_ERROR_INVALID_VALUE);
    driver().arrays.get(array, CUDA_ERROR_INVALID_HANDLE);
    fail(CUDA_ERROR_INVALID_VALUE); // documented: the array is not sparse
  });
}

CUresult CUDAAPI cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int) {
  return enter("cuArrayGetPlane", Needs::healthy, [&](Call &) {
    require(pPlaneArray != nullptr, CUDA_ERROR_INVALID_VALUE);
    driver().arrays.get(hArray, CUDA_ERROR_INVALID_HANDLE);
    fail(CUDA_ERROR_INVALID_VALUE); // no array here has a multi-planar format
  });
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                        const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                        unsigned int numMipmapLevels) {
  return enter("cuMipmappedArrayCreate", Needs::healthy, [&](Call &call) {
    require(pHandle != nullptr && pMipmappedArrayDesc != nullptr, CUDA_ERROR_INVALID_VALUE);
    const auto &full = *pMipmappedArrayDesc;
    require_descriptor(call.context->device, full, true);
    // Layers do not shrink; the depth of a volume does.
    bool layers = full.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    uint64_t largest = std::max({full.Width, full.Height, layers ? 0 : full.Depth});
    unsigned most = 1; // documented: 1 + floor(log2(largest extent))
    while (largest >> most)
      ++most;
    unsigned levels = std::clamp(numMipmapLevels, 1u, most); // documented: clamped
    auto mipmapped = std::make_shared<MipmappedArray>();
    mipmapped->context = call.context;
    mipmapped->descriptor = full;
    uint64_t bytes = 0;
    for (unsigned level = 0; level < levels; ++level) {
      CUDA_ARRAY3D_DESCRIPTOR descriptor = full;
      descriptor.Width = halved(full.Width, level);
      descriptor.Height = halved(full.Height, level);
      descriptor.Depth = layers ? full.Depth : halved(full.Depth, level);
      auto array = new_array(*call.context, descriptor);
      array->is_level = true;
      array->base = bytes; // until the storage is known
      bytes += round_up(array->bytes(), allocation_alignment);
      mipmapped->levels.push_back(array);
    }
    auto storage = std::make_shared<ArrayStorage>(call.context->device, bytes);
    for (const auto &array : mipmapped->levels) {
      array->storage = storage;
      array->base += storage->base;
      driver().arrays.add(array);
    }
    *pHandle = driver().mipmapped_arrays.add(mipmapped);
  });
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                          unsigned int level) {
  return enter("cuMipmappedArrayGetLevel", Needs::healthy, [&](Call &) {
    require(pLevelArray != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto mipmapped = driver().mipmapped_arrays.get(hMipmappedArray, CUDA_ERROR_INVALID_HANDLE);
    require(level < mipmapped->levels.size(), CUDA_ERROR_INVALID_VALUE);
    *pLevelArray = handle_of<CUarray>(mipmapped->levels[level].get());
  });
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  return enter("cuMipmappedArrayDestroy", Needs::healthy, [&](Call &) {
    auto mipmapped = driver().mipmapped_arrays.get(hMipmappedArray, CUDA_ERROR_INVALID_HANDLE);
    for (const auto &level : mipmapped->levels)
      driver().arrays.remove(level.get());
    driver().mipmapped_arrays.remove(mipmapped.get());
  });
}

CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                                       CUmipmappedArray mipmap, CUdevice device) {
  return enter("cuMipmappedArrayGetMemoryRequirements", Needs::healthy, [&](Call &) {
    require(memoryRequirements != nullptr, CUDA_ERROR_INVALID_VALUE);
    device_of(device);
    driver().mipmapped_arrays.get(mipmap, CUDA_ERROR_INVALID_HANDLE);
    fail(CUDA_ERROR_INVALID_VALUE); // as cuArrayGetMemoryRequirements
  });
}

CUresult CUDAAPI cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                                     CUmipmappedArray mipmap) {
  return enter("cuMipmappedArrayGetSparseProperties", Needs::healthy, [&](Call &) {
    require(sparseProperties != nullptr, CUDA_ERROR_INVALID_VALUE);
    driver().mipmapped_arrays.get(mipmap, CUDA_ERROR_INVALID_HANDLE);
    fail(CUDA_ERROR_INVALID_VALUE);
  });
}
