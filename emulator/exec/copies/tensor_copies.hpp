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
  distance = 9,   // three, u16: of the pixels that are copied from those that the box has (im2col)
  places = 12,
};

enum class Shape : uint8_t {
  tile,
  pixels, // im2col: columns of pixels in a box of positions
  rows,   // tile::gather4 and scatter4: four rows, wherever they are
};

// immediate: dimensions of the tensor | asynchronous::Operator << 8 | Shape << 16.
const Instruction *load(Warp &w, const Instruction *i);
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
};
// tensormap.replace: address, new value (u64); immediate: MapField | dimension << 8.
const Instruction *replace(Warp &w, const Instruction *i);

} // namespace emulator::tensor_copies
