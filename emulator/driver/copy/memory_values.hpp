// Streams and graphs that write a value into memory or wait for one.
#pragma once

#include "stream/operation.hpp"

namespace emulator::driver {

struct MemoryValueOperation final : Operation {
  Context *where;
  mutable std::vector<CUstreamBatchMemOpParams> operations; // cuGraphBatchMemOpNodeGetParams points into it
  unsigned flags;

  // CUDA_ERROR_INVALID_VALUE for more or fewer operations than a batch may have, and for flags.
  MemoryValueOperation(Context &context, const CUstreamBatchMemOpParams *batch, size_t count, unsigned flags);
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  Context *context() const override { return where; }
  void check() const override { works(); }
  Works works() const override; // one for each
};

} // namespace emulator::driver
