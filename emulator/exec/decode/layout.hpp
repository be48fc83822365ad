// Where the variables of a program's functions lie, in shared memory and in their frames.
#pragma once

#include <vector>

#include "exec/decode/units.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

inline uint64_t aligned(uint64_t offset, uint64_t alignment) {
  alignment = alignment ? alignment : 1;
  return (offset + alignment - 1) / alignment * alignment;
}

// Enters into `layout` what has an offset, and into the program how much memory that takes. Throws
// Unsupported.
void place_variables(const std::vector<Unit> &units, Layout &layout, Program &program);

} // namespace emulator
