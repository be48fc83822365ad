// What works on 128 bits in memory.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::wide {

// atom.cas.b128 and atom.exch.b128. In Program::extra: addresses, the operand's halves, the new value's
// halves (none: exchange with the operand), the halves of the result or none.
const Instruction *atomic(Warp &w, const Instruction *i);

} // namespace emulator::wide
