// Copies of boxes of tensors between global and shared memory, as tensor maps describe them. They are done
// when all asynchronous copies are (asynchronous.hpp).
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::tensor_copies {

// Operands are in Program::extra from Instruction::extra on; addresses are generic, no_offset is left out.
enum Place : uint32_t {
  map = 0,
  shared = 1,     // destination or source
  coordinate = 2, // five, s32
  signal = 7,     // mbarrier
  blocks = 8,     // mask
  distance = 9,   // three, u16: of the pixels that are copied from those that the box has (im2col); halo and
                  // offset along W (im2col::w)
  places = 12,
};

enum class Shape : uint8_t {
  tile,
  pixels, // im2col: columns of pixels in a box of positions
  rows,   // tile::gather4 and scatter4: four rows, wherever they are
  wide,   // im2col::w: pixels along W
  wide_128,
};
constexpr uint32_t gathered_rows = 4;

// immediate: dimensions of the tensor | asynchronous::Operator << 8 | Shape << 16 | for_pairs.
const Instruction *load(Warp &w, const Instruction *i);
// .cta_group::2: each block of a pair signals to the one of the two that the mbarrier's block is like.
constexpr int64_t for_pairs = 1 << 24;
// Operator `replace` is a plain store.
const Instruction *store(Warp &w, const Instruction *i);

enum class MapField : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  interleave_layout,
  swizzle_mode,
  fill_mode,
  element_type,
  swizzle_atomicity,
};
// tensormap.replace: address, new value (u64); immediate: MapField | dimension << 8.
const Instruction *replace(Warp &w, const Instruction *i);

} // namespace emulator::tensor_copies
