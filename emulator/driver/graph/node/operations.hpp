// What nodes do: operations of streams with what only a node knows, and kinds that graphs alone have.
#pragma once

#include "copy/copy.hpp"
#include "copy/fill.hpp"
#include "copy/memory_values.hpp"
#include "graph/handles.hpp"
#include "launch/launch.hpp"
#include "stream/event.hpp"
#include "stream/host_functions.hpp"

namespace emulator::driver {

class GraphMemory;

struct KernelNode final : KernelOperation {
  CUkernel kernel = nullptr;            // given instead of a function
  mutable std::vector<void *> pointers; // to the parameters, for cuGraphKernelNodeGetParams

  explicit KernelNode(const KernelOperation &launch);
};

struct CopyNode final : CopyOperation {
  CUDA_MEMCPY3D description; // what cuGraphMemcpyNodeGetParams gives

  CopyNode(const CopyOperation &copy, const CUDA_MEMCPY3D &described)
      : CopyOperation(copy), description(described) {}
  bool one_dimensional() const { return sides.shape.height == 1 && sides.shape.depth == 1; }
};

struct EmptyOperation final : Operation {
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EMPTY; }
  Works works() const override { return {}; }
};

// The graph belongs to the node, which is why the operation of a clone is another one.
struct ChildGraphOperation final : Operation {
  std::shared_ptr<Graph> graph;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  Works works() const override { return {}; } // executable.cpp launches what is inside
};

// Memory nodes: see memory_nodes.cpp.
struct AllocateOperation final : Operation {
  std::shared_ptr<GraphMemory> memory;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  std::vector<CUmemAccessDesc> access;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  Context *context() const override;
  Works works() const override;
};

struct FreeOperation final : Operation {
  std::shared_ptr<GraphMemory> memory;

  CUdeviceptr address() const;
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  Context *context() const override;
  Works works() const override;
};

// Each validates what it is given and throws the documented error.
OperationPointer make_kernel(const CUDA_KERNEL_NODE_PARAMS &parameters, const LaunchAttributes &attributes);
OperationPointer make_copy(CUcontext context, const CUDA_MEMCPY3D &description);
OperationPointer make_fill(CUcontext context, const CUDA_MEMSET_NODE_PARAMS &parameters);
OperationPointer make_memory_values(const CUDA_BATCH_MEM_OP_NODE_PARAMS &parameters);
OperationPointer make_allocate(CUDA_MEM_ALLOC_NODE_PARAMS &parameters);
OperationPointer make_allocate(Context &context, size_t bytes); // of cuMemAllocAsync in a captured stream
OperationPointer make_free(CUdeviceptr address);
// Clones the graph into the node.
OperationPointer make_child(const Graph &graph);
// What was submitted to a stream of this priority, as a node's.
OperationPointer as_node(const OperationPointer &operation, int priority);

// The operation as one of its kind; CUDA_ERROR_INVALID_VALUE when the node is of another.
template <typename Kind> const Kind &as(const Operation &operation) {
  auto *kind = dynamic_cast<const Kind *>(&operation);
  require(kind != nullptr, CUDA_ERROR_INVALID_VALUE);
  return *kind;
}

// Throws when it cannot be launched now. All of a graph's operations are asked before the first is launched.
void require_launchable(const Operation &operation);
// The context that a handle names; null is the calling thread's current one.
Context &node_context(CUcontext handle);

} // namespace emulator::driver
