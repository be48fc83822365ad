#pragma once

#include "exec/warp/worker.hpp"

namespace emulator {

// Runs a launch to its end. `status` is ok or what stopped it.
LaunchResult run_launch(Launch &launch);

} // namespace emulator
