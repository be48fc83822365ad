#include "node_parameters.hpp"
#include "entry/entry.hpp"

#include "conditional.hpp"
#include "graph/graph.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace emulator::driver {
namespace {

// The parameters that stay the same when others are set.
LaunchAttributes attributes_of(const Operation *present) {
  return present ? as<KernelNode>(*present).attributes : LaunchAttributes{};
}

// The structures of the generic function and of the older ones begin alike.
CUDA_KERNEL_NODE_PARAMS kernel_parameters(const CUDA_KERNEL_NODE_PARAMS_v3 &p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    p.kern,      p.ctx};
}

bool contains(const Graph &graph, const Graph *sought) {
  return &graph == sought || std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto &node) {
    auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get());
    return child && contains(*child->graph, sought);
  });
}

OperationPointer child_operation(const CUDA_CHILD_GRAPH_NODE_PARAMS &parameters, const Graph *graph) {
  auto child = graph_handles().graphs.get(parameters.graph, CUDA_ERROR_INVALID_VALUE);
#if CUDA_VERSION >= 12090
  if (parameters.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    // Nor may it hold the graph that it goes into.
    require(!has_conditional_nodes(*child), CUDA_ERROR_INVALID_VALUE); // "cannot be used in a child node"
    require(!child->owned_by_node && !is_captured_into(*child) && !contains(*child, graph),
            CUDA_ERROR_INVALID_VALUE);
    auto operation = std::make_shared<ChildGraphOperation>();
    operation->graph = child;
    return operation;
  }
  require(parameters.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CUDA_ERROR_INVALID_VALUE);
#endif
  (void)graph;
  return make_child(*child);
}

OperationPointer refused(const char *kind) {
  tell(std::string(kind) + " nodes of graphs are not implemented");
  fail(CUDA_ERROR_NOT_SUPPORTED);
}

} // namespace

OperationPointer operation_of(CUgraphNodeParams &parameters, const Operation *present, const Graph *graph) {
  for (int reserved : parameters.reserved0)
    require(reserved == 0, CUDA_ERROR_INVALID_VALUE);
  require(parameters.reserved2 == 0, CUDA_ERROR_INVALID_VALUE);
  require(!present || present->type() == parameters.type, CUDA_ERROR_INVALID_VALUE);
  switch (parameters.type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return make_kernel(kernel_parameters(parameters.kernel), attributes_of(present));
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    require(parameters.memcpy.flags == 0 && parameters.memcpy.reserved == 0, CUDA_ERROR_INVALID_VALUE);
    return make_copy(parameters.memcpy.copyCtx, parameters.memcpy.copyParams);
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const auto &p = parameters.memset;
    return make_fill(p.ctx, {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height});
  }
  case CU_GRAPH_NODE_TYPE_HOST:
    return std::make_shared<HostOperation>(parameters.host.fn, parameters.host.userData);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return child_operation(parameters.graph, graph);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return std::make_shared<EmptyOperation>();
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return std::make_shared<EventOperation>(parameters.type, parameters.eventWait.event);
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return std::make_shared<EventOperation>(parameters.type, parameters.eventRecord.event);
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
    const auto &p = parameters.memOp;
    return make_memory_values({p.ctx, p.count, p.paramArray, p.flags});
  }
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
    require(!present, CUDA_ERROR_NOT_SUPPORTED); // documented: cannot be modified
    auto &p = parameters.alloc;
    CUDA_MEM_ALLOC_NODE_PARAMS older{p.poolProps, p.accessDescs, p.accessDescCount, p.bytesize, 0};
    auto operation = make_allocate(older);
    p.dptr = older.dptr;
    return operation;
  }
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    require(!present, CUDA_ERROR_NOT_SUPPORTED);
    return make_free(parameters.free.dptr);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    require(!present && graph, CUDA_ERROR_NOT_SUPPORTED); // documented: cannot be modified
    return make_conditional(parameters.conditional, *graph);
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    return refused("external semaphore");
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void set_operation(GraphNode &node, OperationPointer operation) {
  require(node.operation->type() == operation->type() && operation->type() != CU_GRAPH_NODE_TYPE_GRAPH,
          CUDA_ERROR_INVALID_VALUE);
  node.operation = std::move(operation);
}

} // namespace emulator::driver

static CUresult add_any(const char *function, CUgraphNode *out, CUgraph graph_handle,
                        const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
                        CUgraphNodeParams *parameters) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(out != nullptr && parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto graph = graph_of(graph_handle);
    auto before = dependencies_of(*graph, dependencies, edges, count);
    auto operation = operation_of(*parameters, nullptr, graph.get());
    auto node = add_node(*graph, operation, before);
    if (auto *child = dynamic_cast<const ChildGraphOperation *>(operation.get())) {
      child->graph->owned_by_node = true;
      graph->has_memory_nodes = graph->has_memory_nodes || child->graph->has_memory_nodes;
    }
    *out = handle_of<CUgraphNode>(node.get());
  });
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, CUgraphNodeParams *nodeParams) {
  return add_any("cuGraphAddNode", phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                   const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                   CUgraphNodeParams *nodeParams) {
  return add_any("cuGraphAddNode_v2", phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                 nodeParams);
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  return enter("cuGraphNodeSetParams", Needs::initialised, [&](Call &) {
    require(nodeParams != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto node = node_of(hNode);
    require(nodeParams->type == node->operation->type(), CUDA_ERROR_INVALID_VALUE);
    require(nodeParams->type != CU_GRAPH_NODE_TYPE_GRAPH, CUDA_ERROR_NOT_SUPPORTED);
    set_operation(*node, operation_of(*nodeParams, node->operation.get(), node->graph));
  });
}
