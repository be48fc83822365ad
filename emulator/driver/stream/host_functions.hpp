// Functions of the program that a stream calls.
#pragma once

#include "operation.hpp"

namespace emulator::driver {

struct HostOperation final : Operation {
  CUhostFn function;
  void *data;

  HostOperation(CUhostFn called, void *with); // CUDA_ERROR_INVALID_VALUE when there is none
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  Works works() const override;
};

} // namespace emulator::driver
