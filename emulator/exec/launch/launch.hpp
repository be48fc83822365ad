#pragma once

#include "exec/warp/worker.hpp"

namespace emulator {

// Runs a launch to its end. `status` is ok or what stopped it. `launched`: the grids that its threads have
// launched, in that order.
LaunchResult run_launch(Launch &launch, std::vector<DeviceLaunch> &launched);

} // namespace emulator
