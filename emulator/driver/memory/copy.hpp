// Copies and fills as work of a stream, with the waiting that "API synchronization behavior" of the driver's
// documentation promises for each kind of memory.
#pragma once

#include "core/driver.hpp"
#include "stream/scheduler.hpp"

#include <functional>

namespace emulator::driver {

struct ArrayStorage;

// One side of a copy of `height` rows in each of `depth` slices.
struct CopySide {
  uint64_t base = 0;        // address of the first byte
  uint64_t pitch_bytes = 0; // from row to row
  uint64_t slice_bytes = 0; // from slice to slice
  bool host = false;        // the caller named it as host memory: not validated against the device's ranges
  // Set for a CUDA array, whose bounds array/array.hpp has checked; keeps the memory until the copy has run.
  std::shared_ptr<ArrayStorage> storage{};
  // Whose rights to the memory count; null: those of the context that copies.
  std::shared_ptr<Context> context{};
  uint64_t named = 0; // the pointer that the caller gave, where offsets lead from there to `base`
};

struct CopyShape {
  uint64_t width_bytes = 0;
  uint64_t height = 1;
  uint64_t depth = 1;
};

struct ShapedCopy {
  CopySide destination, source;
  CopyShape shape;
};

// What the descriptions of the API ask for. CUDA_ERROR_INVALID_VALUE for what they must not hold.
ShapedCopy shaped_copy(const CUDA_MEMCPY2D &description);
ShapedCopy shaped_copy(const CUDA_MEMCPY3D &description);
ShapedCopy shaped_copy(const CUDA_MEMCPY3D_PEER &description);

// When the source of a copy may be read (CUmemcpySrcAccessOrder).
enum class SourceAccess {
  in_stream_order,
  during_the_call, // the source may be gone at return
};

// Validates both sides and gives the work that copies. That work looks at the ranges again when it runs:
// memory that was freed meanwhile leaves CUDA_ERROR_ILLEGAL_ADDRESS in the context.
std::function<Outcome()> copy_work(Context &context, const ShapedCopy &copy,
                                   SourceAccess access = SourceAccess::in_stream_order);

// What the copies between contexts that take no stream do first: they are "serialized with respect to all
// pending and future asynchronous work" of both (CUDA runtime API, cudaMemcpyPeer), so they also end before
// they return.
void serialise(Lock &lock, Context &destination, Context &source);

// Validates both sides, issues the copy, and waits where the kinds of memory ask for it. In a capturing
// stream an asynchronous copy becomes a node instead. `asynchronous` is whether the function's name ends in
// Async.
void copy(Lock &lock, Context &context, const std::shared_ptr<Stream> &stream, CopySide destination,
          CopySide source, CopyShape shape, bool asynchronous);

// Whether the address is memory the driver does not know: pageable memory of the application.
bool is_pageable(uint64_t address);

} // namespace emulator::driver
