// The check `init`: a branch, an address or an output that depends on what nothing has written.
#pragma once

#include "exec/program/program.hpp"

namespace emulator {

// Execute an instruction in place of its own handler (Program::shadows), and follow what it hands on. The
// first executes it without its guard, the second looks at the guard alone.
const Instruction *watch_undefined(Warp &w, const Instruction *i);
const Instruction *watch_guard(Warp &w, const Instruction *i);
// What instructions in one of these programs go on with (Instruction::follow).
const Instruction *watched_next(Warp &w, const Instruction *i);
// Whether what the instruction writes to memory is followed by these.
bool follows_access(const Warp &w, const Instruction *i);

} // namespace emulator
