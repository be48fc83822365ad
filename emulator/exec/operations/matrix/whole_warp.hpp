// Instructions that all 32 lanes of a warp execute together.
#pragma once

#include <string>

#include "exec/warp/warp.hpp"

namespace emulator {

// True when all are here. Else the group waits for the others; lanes that will never come end the launch.
inline bool has_whole_warp(Warp &w, const Instruction *i, const char *name) {
  uint32_t missing = ~w.live;
  if (w.active == ~uint32_t{0})
    return true;
  if (missing != 0)
    fail(w, i, LaunchStatus::illegal_instruction,
         std::string(name) + " by a part of a warp: " + std::to_string(count_lanes(missing)) +
             " of its 32 lanes " + (missing & w.existing ? "have exited" : "have no thread in this block"),
         first_lane(w.active));
  w.wait_for_lanes(i, ~uint32_t{0});
  return false;
}

} // namespace emulator
