// REPLAY_EMULATOR_TOUCHED: lines of JSON, as docs/cpu-driver.md describes them.
#pragma once

#include "exec/interface/launch.hpp"

#include <string>

namespace emulator::driver {

// Each appends a line; does nothing without the setting.
// Of a launch that has run.
void append_touched(const std::string &kernel, const LaunchResult &result);
// Of a copy of `depth` x `height` rows of `width` bytes.
struct TouchedSide {
  uint64_t base, row_bytes, slice_bytes;
};
void append_copied(const TouchedSide &to, const TouchedSide &from, uint64_t width, uint64_t height,
                   uint64_t depth);
// Of memory whose value decides when a stream goes on.
void append_awaited(uint64_t address, uint64_t bytes);

} // namespace emulator::driver
