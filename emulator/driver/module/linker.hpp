// cuLink*: a linker of one input. PTX of several inputs would have to be merged, which is not done.
#pragma once

#include "core/driver.hpp"

#include <string>

namespace emulator::driver {

struct Linker {
  unsigned inputs = 0;
  std::string ptx;
  bool completed = false;
};

} // namespace emulator::driver
