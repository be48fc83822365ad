// cuLink*: PTX texts of several inputs as one image.
#pragma once

#include "core/driver.hpp"
#include "exec/program.hpp"
#include "jit_options.hpp"

#include <string>
#include <vector>

namespace emulator::driver {

struct Linker {
  std::vector<PtxText> texts;
  // The caller's arrays, which by the documentation live as long as the linker.
  JitOptions options;
  std::string image; // once completed
  bool completed = false;
};

} // namespace emulator::driver
