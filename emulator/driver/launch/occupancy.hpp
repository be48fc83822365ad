// How many blocks of a kernel fit on a multiprocessor at once.
#pragma once

#include "device/driver.hpp"

namespace emulator::driver {

// 0 when not even one fits.
uint32_t blocks_per_multiprocessor(const Function &function, const Device &device, uint32_t threads,
                                   uint64_t dynamic_shared_bytes);

} // namespace emulator::driver
