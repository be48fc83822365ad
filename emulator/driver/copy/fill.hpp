// Fills as work: for streams, and for the nodes of graphs.
#pragma once

#include "stream/operation.hpp"

namespace emulator::driver {

struct FillShape {
  uint64_t destination = 0;
  uint64_t pitch_bytes = 0; // from row to row; any when there is one row
  uint32_t value = 0;       // its low `element_bytes` are written
  uint32_t element_bytes = 1;
  size_t width = 0; // elements of a row
  size_t height = 1;
};

struct FillOperation final : Operation {
  Context *where;
  FillShape shape;
  const char *call; // what findings name it by

  FillOperation(Context &context, const FillShape &filled, const char *named = "a memset of a graph")
      : where(&context), shape(filled), call(named) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMSET; }
  Context *context() const override { return where; }
  void check() const override { works(); }
  Works works() const override;
};

} // namespace emulator::driver
