// printf on the device, and texts for people: strings in device memory, names of kernels.
#pragma once

#include <string>

#include "exec/machine/warp.hpp"

namespace emulator {

// The string at a generic address, up to 64 KiB. Faults like any access where it leaves memory.
std::string read_string(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address);

// vprintf of one lane. Returns what the CUDA C++ Programming Guide says: the number of arguments, -1 when the
// format is null.
int print(Warp &warp, const Instruction *i, uint32_t lane, uint64_t format_address, uint64_t arguments);

// "scale<float>(float*) [_Z5scaleIfEvPT_]", or the name as it is where it is not mangled or does not tell
// more.
std::string readable_name(const std::string &name);

} // namespace emulator
