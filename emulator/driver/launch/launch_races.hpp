// Races between launches: what two kernels touch in global memory while nothing orders one after the other.
//
// Launches run one after the other here; a race is what streams, events and waits of the host leave open.
#pragma once

#include "exec/interface/launch.hpp"
#include "stream/scheduler.hpp"

namespace emulator::driver {

// Whether the launch is to record what it touches for this. With the driver's lock.
bool may_race(const Context &context);

// The launch, which recorded what it touched, has run as the work of this thread: adds to its findings what
// it races with of the launches before. Takes the driver's lock.
void find_launch_races(const std::string &kernel, uint64_t launch_number, LaunchResult &result);

} // namespace emulator::driver
