// REPLAY_EMULATOR_FINDINGS: one line of JSON for each checked launch, as docs/cpu-driver.md describes it.
#pragma once

#include "exec/interface/launch.hpp"

#include <string>

namespace emulator::driver {

// Appends the line of one launch that has run, or tells what was found on stderr where no file is named; does
// nothing without REPLAY_EMULATOR_CHECKS.
void append_findings(const std::string &kernel, const LaunchResult &result, uint64_t launch_number);

} // namespace emulator::driver
