// Memory in words, and memory that the program does not free as it must.
#pragma once

#include "allocations.hpp"

#include <string>

namespace emulator::driver {

std::string grouped(uint64_t number); // 1,234,567
std::string named(const Stretch &stretch);

// Throws CUDA_ERROR_INVALID_VALUE unless the address may be freed; with the check `memory` it says why not.
void require_free(bool may_be_freed, uint64_t address);
// With the check `memory`: what is still allocated when the process ends is told. Called once.
void watch_for_leaks();

} // namespace emulator::driver
