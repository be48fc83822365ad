// Conditional nodes: graphs inside a graph that run if, while, or as often as a value in memory says.
//
// A handle is the address of that value, in memory of the device, which cudaGraphSetConditional (in
// exec/module/device_runtime.hpp) writes.
#pragma once

#include "operations.hpp"

namespace emulator::driver {

struct Allocation;

struct Condition {
  Condition(Context &of, unsigned value, bool assigns);
  ~Condition();

  Context *const context;
  const unsigned default_value;
  const bool assigns_default; // at the beginning of each execution of the graph that has it
  bool used = false;          // by a node
  const std::shared_ptr<Allocation> allocation;

  CUgraphConditionalHandle handle() const;
  unsigned value() const;
  void assign() const;
};

struct ConditionalOperation final : Operation {
  std::shared_ptr<Condition> condition;
  CUgraphConditionalNodeType kind = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<Graph>> bodies;
  mutable std::vector<CUgraph> handles; // CUDA_CONDITIONAL_NODE_PARAMS::phGraph_out points into it

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
  Context *context() const override { return condition->context; }
  Works works() const override { return {}; } // executable.cpp runs what is inside
};

// Throws CUDA_ERROR_INVALID_VALUE for a handle of another graph, or one that a node has already.
OperationPointer make_conditional(CUDA_CONDITIONAL_NODE_PARAMS &parameters, const Graph &graph);

// Whether there is a conditional node in the graph or inside it, for what such a graph cannot do.
bool has_conditional_nodes(const Graph &graph);
// Throws CUDA_ERROR_INVALID_VALUE unless every node may be inside a conditional node.
void require_body(const Graph &graph);

} // namespace emulator::driver
