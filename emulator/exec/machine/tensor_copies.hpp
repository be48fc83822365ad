// Copies of boxes of tensors between global and shared memory, as tensor maps describe them. Like all
// asynchronous copies they are done where they are issued.
#pragma once

#include "exec/machine/warp.hpp"

namespace emulator::tensor_copies {

// Operands stand in Program::extra from Instruction::extra on; addresses are generic, no_offset is left out.
enum Place : uint32_t {
  map = 0,
  shared = 1,     // destination or source
  coordinate = 2, // five, s32
  signal = 7,     // mbarrier
  blocks = 8,     // mask
  places = 9,
};

// immediate: how many coordinates there are.
const Instruction *load(Warp &w, const Instruction *i);
// immediate: likewise, and asynchronous::Operator << 8 (replace: a plain store).
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
};
// tensormap.replace: address, new value (u64); immediate: MapField | dimension << 8.
const Instruction *replace(Warp &w, const Instruction *i);

} // namespace emulator::tensor_copies
