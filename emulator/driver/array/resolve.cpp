// From handles to what the executor reads: formats, levels, samplers.
#include "array.hpp"
#include "device/context.hpp"
#include "texture.hpp"

#include <algorithm>
#include <cstring>

namespace emulator::driver {
namespace {

TexelFormat texels_of(CUarray_format format, unsigned channels) {
  auto made = [&](TexelKind kind, unsigned bytes) {
    return TexelFormat{kind, static_cast<uint8_t>(bytes), static_cast<uint8_t>(channels)};
  };
  int number = static_cast<int>(format);
  switch (number) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_UNSIGNED_INT32:
    return made(TexelKind::unsigned_integer, 1u << (number - CU_AD_FORMAT_UNSIGNED_INT8));
  case CU_AD_FORMAT_SIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT32:
    return made(TexelKind::signed_integer, 1u << (number - CU_AD_FORMAT_SIGNED_INT8));
  case CU_AD_FORMAT_HALF:
    return made(TexelKind::floating, 2);
  case CU_AD_FORMAT_FLOAT:
    return made(TexelKind::floating, 4);
  default: // normalised: see element_bytes_of
    return made(number < 0xC6 ? TexelKind::unsigned_normalised : TexelKind::signed_normalised,
                (number - 0xC0) / 3 % 2 ? 2 : 1);
  }
}

ImageLevel level_of(const CudaArray &array) {
  ImageLevel level;
  level.base = array.base;
  level.extent[0] = static_cast<uint32_t>(array.descriptor.Width);
  level.extent[1] = static_cast<uint32_t>(array.rows());
  level.extent[2] = static_cast<uint32_t>(array.slices());
  level.row_bytes = array.row_bytes();
  level.slice_bytes = array.row_bytes() * array.rows();
  return level;
}

Image image_of_arrays(const CUDA_ARRAY3D_DESCRIPTOR &d,
                      const std::vector<std::shared_ptr<CudaArray>> &levels) {
  Image image;
  image.format = texels_of(d.Format, d.NumChannels);
  image.layered = d.Flags & CUDA_ARRAY3D_LAYERED;
  image.cubemap = d.Flags & CUDA_ARRAY3D_CUBEMAP;
  image.gather = d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER;
  bool layers = image.layered || image.cubemap;
  image.dimensions = d.Height == 0 ? 1 : layers || d.Depth == 0 ? 2 : 3;
  image.layers = layers ? static_cast<uint32_t>(d.Depth) : 1;
  image.array_layers = image.layered ? image.layers / (image.cubemap ? 6 : 1) : 0;
  for (const auto &level : levels)
    image.levels.push_back(level_of(*level));
  image.keeps = levels[0]->storage;
  return image;
}

bool image_of(const CUDA_RESOURCE_DESC &resource, Image &image, std::string &problem) {
  switch (resource.resType) {
  case CU_RESOURCE_TYPE_ARRAY: {
    auto array = driver().arrays.find(resource.res.array.hArray);
    if (!array) {
      problem = "its array was destroyed";
      return false;
    }
    image = image_of_arrays(array->descriptor, {array});
    return true;
  }
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
    auto mipmapped = driver().mipmapped_arrays.find(resource.res.mipmap.hMipmappedArray);
    if (!mipmapped) {
      problem = "its mipmapped array was destroyed";
      return false;
    }
    image = image_of_arrays(mipmapped->descriptor, mipmapped->levels);
    return true;
  }
  case CU_RESOURCE_TYPE_LINEAR: {
    const auto &linear = resource.res.linear;
    image.format = texels_of(linear.format, linear.numChannels);
    image.linear_memory = image.checked = true;
    ImageLevel level;
    level.base = linear.devPtr;
    level.extent[0] = static_cast<uint32_t>(linear.sizeInBytes / image.format.bytes());
    level.row_bytes = level.slice_bytes = linear.sizeInBytes;
    image.levels.push_back(level);
    return true;
  }
  default: {
    const auto &flat = resource.res.pitch2D;
    image.format = texels_of(flat.format, flat.numChannels);
    image.dimensions = 2;
    image.checked = true;
    ImageLevel level;
    level.base = flat.devPtr;
    level.extent[0] = static_cast<uint32_t>(flat.width);
    level.extent[1] = static_cast<uint32_t>(flat.height);
    level.row_bytes = flat.pitchInBytes;
    level.slice_bytes = flat.pitchInBytes * flat.height;
    image.levels.push_back(level);
    return true;
  }
  }
}

void apply_view(Image &image, const CUDA_RESOURCE_VIEW_DESC &view) {
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    ViewFormat format = format_of_view(view.format);
    image.format = texels_of(format.format, format.channels);
  }
  image.levels.erase(image.levels.begin() + view.lastMipmapLevel + 1, image.levels.end());
  image.levels.erase(image.levels.begin(), image.levels.begin() + view.firstMipmapLevel);
  if (!image.layered)
    return;
  for (ImageLevel &level : image.levels)
    level.base += view.firstLayer * level.slice_bytes;
  image.layers = view.lastLayer - view.firstLayer + 1;
  image.array_layers = image.layers / (image.cubemap ? 6 : 1);
}

AddressMode mode_of(CUaddress_mode mode) {
  switch (mode) {
  case CU_TR_ADDRESS_MODE_WRAP:
    return AddressMode::wrap;
  case CU_TR_ADDRESS_MODE_MIRROR:
    return AddressMode::mirror;
  case CU_TR_ADDRESS_MODE_BORDER:
    return AddressMode::border;
  default:
    return AddressMode::clamp;
  }
}

Sampler sampler_of(const CUDA_TEXTURE_DESC &texture) {
  Sampler sampler;
  bool seamless = texture.flags & CU_TRSF_SEAMLESS_CUBEMAP;
  for (int d = 0; d < 3; ++d)
    sampler.mode[d] = seamless ? AddressMode::clamp : mode_of(texture.addressMode[d]);
  sampler.linear = texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler.normalised = texture.flags & CU_TRSF_NORMALIZED_COORDINATES;
  sampler.promotes = !(texture.flags & CU_TRSF_READ_AS_INTEGER);
  sampler.srgb = texture.flags & CU_TRSF_SRGB;
  sampler.seamless = seamless;
  sampler.linear_levels = texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler.level_bias = texture.mipmapLevelBias;
  sampler.least_level = texture.minMipmapLevelClamp;
  sampler.most_level = texture.maxMipmapLevelClamp;
  std::memcpy(sampler.border, texture.borderColor, sizeof sampler.border);
  return sampler;
}

} // namespace

std::shared_ptr<const Texture> sampled(const TextureObject &object, std::string &problem) {
  auto texture = std::make_shared<Texture>();
  if (!image_of(object.resource, texture->image, problem))
    return nullptr;
  if (object.has_view)
    apply_view(texture->image, object.view);
  texture->sampler = sampler_of(object.texture);
  return texture;
}

std::shared_ptr<const Surface> accessed(const CUDA_RESOURCE_DESC &resource, std::string &problem) {
  auto surface = std::make_shared<Surface>();
  return image_of(resource, surface->image, problem) ? surface : nullptr;
}

} // namespace emulator::driver
