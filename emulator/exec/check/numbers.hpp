// The checks `numbers`, an instruction that makes a NaN or an infinity although all that it reads is finite,
// and `cancellation`, one that subtracts what is almost equal.
#pragma once

#include <string_view>

#include "exec/program/program.hpp"

namespace emulator {

// What is watched of an instruction that reads and makes values of these types; `is_watched` is false where
// its result cannot tell anything.
WatchedNumbers watched_numbers(std::string_view opcode, ptx::Type result, const ptx::Type *sources,
                               uint8_t source_count);
WatchedNumbers watched_numbers(const MatrixForm &form);
// Which of its sources may be where the result is: bit n of source n.
uint8_t overwritten_sources(const Instruction &i, const WatchedNumbers &watched);

// Executes an instruction in place of its own handler (Program::watched), and looks at what it made.
const Instruction *watch_numbers(Warp &w, const Instruction *i);

} // namespace emulator
