// Asynchronous copies. They are done where they are issued, which is one of the moments a GPU may choose;
// what waits for them finds them done.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::asynchronous {

// Operands are in Program::extra from Instruction::extra on; addresses are generic, no_offset is an operand
// left out.

// cp.async: destination, source, bytes of the source or none, predicate to ignore the source or none.
// element_bytes is no memory site here: `immediate` has the bytes of the destination.
const Instruction *copy(Warp &w, const Instruction *i);
// cp.async.bulk: destination, source, bytes, mbarrier or none, mask of blocks or none, mask of bytes or none
const Instruction *copy_bulk(Warp &w, const Instruction *i);
// cp.reduce.async.bulk: destination, source, bytes, mbarrier or none; immediate: Reduction
const Instruction *reduce_bulk(Warp &w, const Instruction *i);
// st.async, red.async: destination, mbarrier, then the elements; element_count in `immediate` >> 8, Reduction
// below
const Instruction *store(Warp &w, const Instruction *i);

enum class Operator : uint8_t {
  replace,
  add,
  minimum,
  maximum,
  increment,
  decrement,
  bit_and,
  bit_or,
  bit_xor
};
// *to = operator(*to, *from), both of this type.
void combine_element(Operator op, ptx::Type type, uint64_t to, const void *from);

// What Instruction::immediate packs: an operator, and the type it works on.
constexpr int64_t reduction(Operator op, ptx::Type type) {
  return static_cast<int64_t>(op) | static_cast<int64_t>(type) << 8;
}

} // namespace emulator::asynchronous
