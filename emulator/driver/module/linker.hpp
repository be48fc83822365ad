// cuLink*: PTX texts of several inputs as one image.
#pragma once

#include "device/driver.hpp"
#include "exec/module/module.hpp"
#include "image/jit_options.hpp"

#include <string>
#include <vector>

namespace emulator::driver {

struct Linker {
  std::vector<PtxText> texts;
  // The caller's arrays, which by the documentation live as long as the linker.
  JitOptions options;
  // What they held when the linker was made.
  std::vector<void *> first_values;
  JitOptions first_options() { return {options.count, options.options, first_values.data()}; }
  std::string image; // once completed
  bool completed = false;
};

} // namespace emulator::driver
