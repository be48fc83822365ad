// CUDA arrays: storage in device memory without an address that a program could use. The layout is this
// driver's own: rows, slices and layers lie one after another without padding.
#pragma once

#include "copy/copy.hpp"
#include "device/driver.hpp"

namespace emulator::driver {

// Memory of one array, or of all levels of a mipmapped one. Destroyed under the driver's lock.
struct ArrayStorage {
  ArrayStorage(Device &device, uint64_t bytes);
  ~ArrayStorage();
  ArrayStorage(const ArrayStorage &) = delete;
  ArrayStorage &operator=(const ArrayStorage &) = delete;

  Device &device;
  uint64_t base;
  uint64_t footprint; // bytes taken from the device
};

struct CudaArray {
  Context *context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  uint32_t element_bytes = 0;
  std::shared_ptr<ArrayStorage> storage;
  uint64_t base = 0;
  bool is_level = false; // of a mipmapped array, which owns it

  uint64_t row_bytes() const { return descriptor.Width * element_bytes; }
  uint64_t rows() const { return descriptor.Height ? descriptor.Height : 1; }
  uint64_t slices() const { return descriptor.Depth ? descriptor.Depth : 1; } // or layers
  uint64_t bytes() const { return row_bytes() * rows() * slices(); }
  bool is_one_dimensional() const { return descriptor.Height == 0 && descriptor.Depth == 0; }
};

struct MipmappedArray {
  Context *context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  std::vector<std::shared_ptr<CudaArray>> levels;
};

// Bytes of one element. Throws CUDA_ERROR_INVALID_VALUE for what no array may hold, and
// CUDA_ERROR_NOT_SUPPORTED for block-compressed and planar formats.
uint32_t element_bytes_of(CUarray_format format, unsigned channels);

// The part of an array that a copy of `shape` from (x, y, z) touches. Throws CUDA_ERROR_INVALID_VALUE when it
// does not lie inside the array or cuts an element.
CopySide array_side(CUarray handle, uint64_t x_bytes, uint64_t y, uint64_t z, const CopyShape &shape);
// The same for the functions that know one-dimensional arrays only.
CopySide linear_array_side(CUarray handle, uint64_t offset_bytes, uint64_t bytes);

} // namespace emulator::driver
