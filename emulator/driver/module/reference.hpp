// Texture and surface references: .texref and .surfref variables of modules, which the program binds to
// memory.
#pragma once

#include "array/texture.hpp"
#include "device/driver.hpp"

namespace emulator::driver {

struct TextureReference {
  Context *context = nullptr;
  uint64_t variable = 0; // its address, which kernels use as a handle; 0: made by cuTexRefCreate
  const LoadedModule *module = nullptr; // that it ends with
  bool bound = false;
  TextureObject object; // what it is as an object
  // Of an address that is not aligned: cuTexRefSetAddress gives the program the rest to add itself.
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  int channels = 1;

  std::shared_ptr<const Texture> sampled(std::string &problem) const;
};

struct SurfaceReference {
  Context *context = nullptr;
  uint64_t variable = 0;
  const LoadedModule *module = nullptr;
  bool bound = false;
  CUDA_RESOURCE_DESC resource{};

  std::shared_ptr<const Surface> accessed(std::string &problem) const;
};

// The reference whose variable lies at this address, bound or not; nullptr when nobody asked for one there.
std::shared_ptr<TextureReference> texture_reference_at(const Context &context, uint64_t variable);
std::shared_ptr<SurfaceReference> surface_reference_at(const Context &context, uint64_t variable);

// A module's references end with it.
void forget_references(const LoadedModule &module);

} // namespace emulator::driver
