// printf on the device, and strings in its memory.
#pragma once

#include <string>

#include "exec/warp/warp.hpp"

namespace emulator {

// The string at a generic address, up to 64 KiB. Faults like any access where it leaves memory.
std::string read_string(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address);

// vprintf of one lane. Returns what the CUDA C++ Programming Guide says: the number of arguments, -1 when the
// format is null.
int print(Warp &warp, const Instruction *i, uint32_t lane, uint64_t format_address, uint64_t arguments);

} // namespace emulator
