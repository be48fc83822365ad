// Texture and surface objects, and what they are to the executor.
#pragma once

#include "device/driver.hpp"
#include "exec/interface/image.hpp"

#include <string>

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

// What cuTexObjectCreate documents. Throw the documented error.
void require_resource(Context &context, const CUDA_RESOURCE_DESC &resource);

// As the executor reads them; nullptr, and `problem` says why, when what they were made of is gone. Under the
// driver's lock.
std::shared_ptr<const Texture> sampled(const TextureObject &object, std::string &problem);
std::shared_ptr<const Surface> accessed(const CUDA_RESOURCE_DESC &resource, std::string &problem);

} // namespace emulator::driver
