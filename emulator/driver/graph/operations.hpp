// What nodes do. An Operation never changes once it is made: a node, its clones, executable graphs and
// launches under way share it, and a change of parameters gives the node another one.
#pragma once

#include "launch/launch.hpp"
#include "memory/copy.hpp"
#include "memory/fill.hpp"

namespace emulator::driver {

class GraphMemory;

// Where the works of one node go when its graph is launched. They run one after another, after everything
// that the node depends on.
class Emitter {
public:
  virtual ~Emitter() = default;
  virtual std::shared_ptr<Work> add(std::shared_ptr<Work> work) = 0;
  std::shared_ptr<Work> run(std::function<Outcome()> function);
};

struct Operation {
  virtual ~Operation() = default;
  virtual CUgraphNodeType type() const = 0;
  // Where it runs. Null: in the context of the stream that the graph is launched in.
  virtual Context *context() const { return nullptr; }
  // Throws when it cannot be launched now. All of a graph's operations are asked before the first is emitted.
  virtual void require_launchable() const {}
  virtual void emit(Emitter &emitter) const = 0;
  // Whether an executable graph's node may exchange this operation for `next`, of the same type. Documented
  // with cuGraphExecUpdate.
  virtual CUgraphExecUpdateResult exchangeable(const Operation &next) const;
};

struct KernelOperation final : Operation {
  CUfunction function = nullptr; // as it was given: possibly a CUkernel
  CUkernel kernel = nullptr;     // given instead of a function
  std::shared_ptr<const PreparedLaunch> launch;
  mutable std::vector<void *> parameters; // into launch->parameters, for cuGraphKernelNodeGetParams

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }
  Context *context() const override { return launch->context; }
  void require_launchable() const override;
  void emit(Emitter &emitter) const override { emitter.run(started(launch)); }
  CUgraphExecUpdateResult exchangeable(const Operation &next) const override;
};

struct CopyOperation final : Operation {
  Context *where = nullptr;
  ShapedCopy sides;
  CUDA_MEMCPY3D description{};

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  Context *context() const override { return where; }
  void require_launchable() const override;
  void emit(Emitter &emitter) const override;
  CUgraphExecUpdateResult exchangeable(const Operation &next) const override;
  bool one_dimensional() const { return sides.shape.height == 1 && sides.shape.depth == 1; }
};

struct FillOperation final : Operation {
  Context *where = nullptr;
  FillShape shape;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMSET; }
  Context *context() const override { return where; }
  void require_launchable() const override;
  void emit(Emitter &emitter) const override;
  CUgraphExecUpdateResult exchangeable(const Operation &next) const override;
};

struct HostOperation final : Operation {
  CUhostFn function = nullptr;
  void *data = nullptr;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  void emit(Emitter &emitter) const override;
};

struct EmptyOperation final : Operation {
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EMPTY; }
  void emit(Emitter &) const override {}
};

// The graph belongs to the node, which is why the operation of a clone is another one.
struct ChildGraphOperation final : Operation {
  std::shared_ptr<Graph> graph;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  void emit(Emitter &) const override {} // executable.cpp launches what is inside
};

struct EventOperation final : Operation {
  CUgraphNodeType kind;
  CUevent handle = nullptr;
  std::shared_ptr<Event> event;

  explicit EventOperation(CUgraphNodeType type) : kind(type) {}
  CUgraphNodeType type() const override { return kind; }
  void emit(Emitter &emitter) const override;
};

struct MemoryValueOperation final : Operation {
  Context *where = nullptr;
  mutable std::vector<CUstreamBatchMemOpParams> operations; // cuGraphBatchMemOpNodeGetParams points into it
  unsigned flags = 0;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  Context *context() const override { return where; }
  void require_launchable() const override;
  void emit(Emitter &emitter) const override;
  CUgraphExecUpdateResult exchangeable(const Operation &next) const override;
};

// Memory nodes: see memory_nodes.cpp.
struct AllocateOperation final : Operation {
  std::shared_ptr<GraphMemory> memory;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  std::vector<CUmemAccessDesc> access;

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  Context *context() const override;
  void require_launchable() const override;
  void emit(Emitter &emitter) const override;
  CUgraphExecUpdateResult exchangeable(const Operation &next) const override;
};

struct FreeOperation final : Operation {
  std::shared_ptr<GraphMemory> memory;

  CUdeviceptr address() const;
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  Context *context() const override;
  void require_launchable() const override;
  void emit(Emitter &emitter) const override;
  CUgraphExecUpdateResult exchangeable(const Operation &next) const override;
};

using OperationPointer = std::shared_ptr<const Operation>;

// Each validates what it is given and throws the documented error.
OperationPointer make_kernel(CUfunction handle, std::shared_ptr<const PreparedLaunch> launch, int priority);
OperationPointer make_kernel(const CUDA_KERNEL_NODE_PARAMS &parameters, const LaunchAttributes &attributes);
OperationPointer make_copy(Context &context, const ShapedCopy &sides);
OperationPointer make_copy(CUcontext context, const CUDA_MEMCPY3D &description);
OperationPointer make_fill(Context &context, const FillShape &shape);
OperationPointer make_fill(CUcontext context, const CUDA_MEMSET_NODE_PARAMS &parameters);
OperationPointer make_host(CUhostFn function, void *data);
OperationPointer make_event(CUgraphNodeType type, CUevent event);
OperationPointer make_memory_values(Context &context, std::vector<CUstreamBatchMemOpParams> operations,
                                    unsigned flags);
OperationPointer make_allocate(CUDA_MEM_ALLOC_NODE_PARAMS &parameters);
OperationPointer make_allocate(Context &context, size_t bytes); // a captured cuMemAllocAsync
OperationPointer make_free(CUdeviceptr address);
// Clones the graph into the node.
OperationPointer make_child(const Graph &graph);

// The operation as one of its kind; CUDA_ERROR_INVALID_VALUE when the node is of another.
template <typename Kind> const Kind &as(const Operation &operation) {
  auto *kind = dynamic_cast<const Kind *>(&operation);
  require(kind != nullptr, CUDA_ERROR_INVALID_VALUE);
  return *kind;
}

// Throws when the context has ended or failed.
void require_alive(const Context &context);
// The context that a handle names; null is the calling thread's current one.
Context &node_context(CUcontext handle);

} // namespace emulator::driver
