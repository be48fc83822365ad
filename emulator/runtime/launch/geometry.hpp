// The shape of a launch, and what the runtime says of one that the driver refused.
#pragma once

#include "core/error.hpp"

namespace emulator::runtime {

// The driver has one error for a bad argument; the runtime tells a grid or block that no kernel could have.
Result launch_error(CUresult result, dim3 grid, dim3 block);

// Throws cudaErrorInvalidValue for none.
CUlaunchConfig launch_config_of(const cudaLaunchConfig_t *config);

} // namespace emulator::runtime
