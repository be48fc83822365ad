// Texture and surface objects. They can be made, described and destroyed; a kernel that reads through one is
// refused at launch, by the name of its instruction, because the executor has no texture units.
#pragma once

#include "core/driver.hpp"

namespace emulator::driver {

struct TextureObject {
  Context *context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  bool has_view = false;
  CUDA_RESOURCE_VIEW_DESC view{};
};

// What a view reads texels as; for formats that are neither CU_RES_VIEW_FORMAT_NONE nor block-compressed.
struct ViewFormat {
  CUarray_format format;
  unsigned channels;
};
ViewFormat format_of_view(CUresourceViewFormat format);

struct SurfaceObject {
  Context *context = nullptr;
  CUDA_RESOURCE_DESC resource{};
};

} // namespace emulator::driver
