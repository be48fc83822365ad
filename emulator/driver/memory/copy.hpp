// Copies and fills as work of a stream, with the waiting that "API synchronization behavior" of the driver's
// documentation promises for each kind of memory.
#pragma once

#include "core/driver.hpp"

#include <functional>

namespace emulator::driver {

// One side of a copy of `height` rows in each of `depth` slices.
struct CopySide {
  uint64_t base = 0;        // address of the first byte
  uint64_t pitch_bytes = 0; // from row to row
  uint64_t slice_bytes = 0; // from slice to slice
  bool host = false;        // the caller named it as host memory: not validated against the device's ranges
};

struct CopyShape {
  uint64_t width_bytes = 0;
  uint64_t height = 1;
  uint64_t depth = 1;
};

// Validates both sides, issues the copy, and waits where the kinds of memory ask for it.
// `asynchronous` is whether the function's name ends in Async.
void copy(Lock &lock, Context &context, const std::shared_ptr<Stream> &stream, CopySide destination,
          CopySide source, CopyShape shape, bool asynchronous);

// Whether the address is memory the driver does not know: pageable memory of the application.
bool is_pageable(uint64_t address);

} // namespace emulator::driver
