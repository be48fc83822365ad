// What device code may call without bringing the code along: vprintf, malloc, free, __assertfail, launches.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

void run_service(Warp &warp, const Instruction *i, const Callee &callee);

// The function of this program at a code address; nullptr when there is none.
const FunctionCode *function_at(const Warp &warp, uint64_t address);

// Code addresses point to no memory: they are only compared and called. The first function of a module is at
// first_function_address, the others follow at this distance.
constexpr uint64_t first_function_address = 0x00f0000000000000;
constexpr uint64_t function_address_step = 16;

} // namespace emulator
