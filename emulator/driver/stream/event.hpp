// An event remembers the newest marker that was recorded into it.
#pragma once

#include "core/driver.hpp"

namespace emulator::driver {

struct Work;

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Work> recorded; // null before the first record
};

} // namespace emulator::driver
