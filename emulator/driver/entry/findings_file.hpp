// REPLAY_EMULATOR_FINDINGS: one line of JSON for each checked launch, as docs/cpu-driver.md describes it.
#pragma once

#include "exec/interface/launch.hpp"

#include <string>

namespace emulator::driver {

// In place of a launch's number: a copy or fill of the host, of which what was found is told.
constexpr uint64_t no_launch = UINT64_MAX;

// Appends the line of one launch that has run, or tells what was found on stderr where no file is named; does
// nothing without REPLAY_EMULATOR_CHECKS.
void append_findings(const std::string &kernel, const LaunchResult &result, uint64_t launch_number);

} // namespace emulator::driver
