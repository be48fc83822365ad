// REPLAY_EMULATOR_COUNTERS: one line of JSON for each launch, as docs/cpu-driver.md describes it.
#pragma once

#include "exec/interface/launch.hpp"

#include <string>

namespace emulator::driver {

// Appends the line of one launch that has run; does nothing without the setting. A file that cannot be
// written is named on stderr once and changes nothing for the program.
void append_counters(const std::string &kernel, const LaunchRequest &request, const LaunchResult &result,
                     uint64_t launch_number, uint64_t modelled_ns);

} // namespace emulator::driver
