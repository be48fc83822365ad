// What reductions do with an element: those of the copies, and of stores that another block is told of.
#pragma once

#include <cstdint>

#include "ptx/syntax/types.hpp"

namespace emulator::asynchronous {

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
// Whether elements of this type have the operator (PTX ISA, cp.reduce.async.bulk). combine_element() does
// more.
bool can_combine(Operator op, ptx::Type type);

} // namespace emulator::asynchronous
