// Tensor maps. The layout of the 128 bytes is this driver's own: the vendor's is not documented, and programs
// do not look into them.
#pragma once

#include <cstdint>

namespace emulator {

struct TensorMap {
  static constexpr uint64_t tiled = 0x31504D5459414C50; // what `magic` is
  static constexpr uint64_t im2col = 0x32504D5459414C50;
  static constexpr uint64_t im2col_wide = 0x33504D5459414C50;
  static constexpr uint8_t wide_128 = 1; // CUtensorMapIm2ColWideMode
  static constexpr uint8_t swizzle_with_flip =
      5; // CUtensorMapSwizzle: each second row has its 8 bytes exchanged

  uint64_t magic = 0;
  // CUTLASS and Triton clear bit 21 of the second word of small tensors' maps, for drivers up to 13.1. It is
  // one of `interleave`, which is never as large.
  uint8_t type = 0;       // CUtensorMapDataType
  uint8_t rank = 0;       // 1 to 5
  uint8_t interleave = 0; // CUtensorMapInterleave
  uint8_t swizzle = 0;    // CUtensorMapSwizzle
  uint8_t promotion = 0;  // CUtensorMapL2promotion
  uint8_t fill = 0;       // CUtensorMapFloatOOBfill
  uint8_t reserved[2] = {};
  uint64_t address = 0;
  uint64_t stride[4] = {};     // bytes, of dimensions 1 to 4
  uint32_t last_index[5] = {}; // extents less one: they may be 2^32
  uint16_t box[5] = {};        // 1 to 256; im2col: channels of a pixel, pixels (to 1024)
  uint8_t element_stride[5] = {};
  // im2col: corners of the box of positions, of the spatial dimensions (wide: of W); the upper ones count
  // from the tensor's end.
  int16_t lower[3] = {};
  int16_t upper[3] = {};
  uint8_t atomicity = 0; // of a swizzle of 128 bytes, as tensormap.replace numbers them; `swizzle` has it too
  uint8_t wide = 0;      // im2col_wide: CUtensorMapIm2ColWideMode
  uint8_t unused[22] = {};
};
static_assert(sizeof(TensorMap) == 128);

} // namespace emulator
