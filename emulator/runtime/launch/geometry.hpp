// What the runtime says of a launch that the driver refused.
#pragma once

#include "core/error.hpp"

namespace emulator::runtime {

// The driver has one error for a bad argument; the runtime tells a grid or block that no kernel could have.
Result launch_error(CUresult result, dim3 grid, dim3 block);

} // namespace emulator::runtime
