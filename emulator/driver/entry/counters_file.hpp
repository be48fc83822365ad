// REPLAY_EMULATOR_COUNTERS: one line of JSON for each launch, as docs/cpu-driver.md describes it.
#pragma once

#include "core/cost_model.hpp"
#include "exec/interface/launch.hpp"

#include <string>

namespace emulator::driver {

// Launches of a process that also say what each of their accesses cost: more would fill a disk.
constexpr uint64_t launches_with_costs = 4096;

// Appends the line of one launch that has run; does nothing without the setting. A file that cannot be
// written is named on stderr once and changes nothing for the program.
void append_counters(const std::string &kernel, const LaunchRequest &request, const LaunchResult &result,
                     uint64_t launch_number, const KernelTime &time, uint64_t modelled_ns);

} // namespace emulator::driver
