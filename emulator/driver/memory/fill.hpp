// Fills as work: for streams, and for the nodes of graphs.
#pragma once

#include "stream/scheduler.hpp"

namespace emulator::driver {

struct FillShape {
  uint64_t destination = 0;
  uint64_t pitch_bytes = 0; // from row to row; any when there is one row
  uint32_t value = 0;       // its low `element_bytes` are written
  uint32_t element_bytes = 1;
  size_t width = 0; // elements of a row
  size_t height = 1;
};

// Validates a fill for the context and gives it as work that may run any number of times.
std::function<Outcome()> plan_fill(Context &context, const FillShape &shape);

} // namespace emulator::driver
