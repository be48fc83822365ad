// Copies and fills as work of a stream, with the waiting that "API synchronization behavior" of the driver's
// documentation promises for each kind of memory.
#pragma once

#include "stream/operation.hpp"

namespace emulator::driver {

// One side of a copy of `height` rows in each of `depth` slices.
struct CopySide {
  uint64_t base = 0;        // address of the first byte
  uint64_t pitch_bytes = 0; // from row to row
  uint64_t slice_bytes = 0; // from slice to slice
  bool host = false;        // the caller named it as host memory: not validated against the device's ranges
  // Set for memory that is in no table of allocations, a CUDA array's: whoever named it has checked its
  // bounds. Keeps it until the copy has run.
  std::shared_ptr<void> storage{};
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

// When the source of a copy may be read (CUmemcpySrcAccessOrder).
enum class SourceAccess {
  in_stream_order,
  during_the_call, // the source may be gone at return
};

// Its work looks at the ranges again when it runs: memory that was freed meanwhile leaves
// CUDA_ERROR_ILLEGAL_ADDRESS in the context.
struct CopyOperation : Operation {
  Context *where;
  ShapedCopy sides;

  CopyOperation(Context &context, const ShapedCopy &copy) : where(&context), sides(copy) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  Context *context() const override { return where; }
  void check() const override { work(SourceAccess::in_stream_order); }
  Works works() const override { return {work(SourceAccess::in_stream_order)}; }
  Works works_at_call() const override; // of an asynchronous copy
  std::shared_ptr<Work> work(SourceAccess access) const;
};

// What the copies between contexts that take no stream do first: they are "serialized with respect to all
// pending and future asynchronous work" of both (CUDA runtime API, cudaMemcpyPeer), so they also end before
// they return.
void serialise(Lock &lock, Context &destination, Context &source);

// Validates both sides, submits the copy, and waits where the kinds of memory ask for it. `asynchronous` is
// whether the function's name ends in Async; others cannot be recorded.
void copy(Lock &lock, Context &context, const std::shared_ptr<Stream> &stream, const CopySide &destination,
          const CopySide &source, const CopyShape &shape, bool asynchronous);

// Whether the address is memory the driver does not know: pageable memory of the application.
bool is_pageable(uint64_t address);

} // namespace emulator::driver
