// Races between works of streams: what launches, copies and fills touch in global memory while nothing orders
// one after the other.
//
// Works run one after the other here; a race is what streams, events and waits of the host leave open.
#pragma once

#include "exec/interface/launch.hpp"
#include "stream/scheduler.hpp"

#include <vector>

namespace emulator::driver {

// Whether the launch is to record what it touches for this. With the driver's lock.
bool may_race(const Context &context);
// The pages in which the work of this thread may meet one that nothing orders before it. With the driver's
// lock.
WatchedPages unordered_pages();

// The launch, which recorded what it touched, has run as the work of this thread: adds to its findings what
// it races with of the works before. Takes the driver's lock.
void find_launch_races(const std::string &kernel, uint64_t launch_number, LaunchResult &result);

// Rows of bytes, from each first one to the one after the last.
using Rows = std::vector<std::pair<uint64_t, uint64_t>>;
// Nothing where races are not looked for.
Rows rows_of(uint64_t base, uint64_t width, uint64_t height, uint64_t pitch_bytes, uint64_t depth = 1,
             uint64_t slice_bytes = 0);
// A copy or fill of the host, of that name, is about to run as the work of this thread: tells what it races
// with. Takes the driver's lock.
void find_call_races(const std::string &call, const Rows &read, const Rows &written);

} // namespace emulator::driver
