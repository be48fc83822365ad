// Nodes of each kind through the functions that are named after the kind: adding, reading and changing them.
#include "entry/entry.hpp"
#include "graph/graph.hpp"
#include "node_parameters.hpp"

#include <cstring>

using namespace emulator::driver;

namespace {

CUresult add(const char *function, CUgraphNode *out, CUgraph graph_handle, const CUgraphNode *dependencies,
             size_t count, const std::function<OperationPointer(Graph &)> &make) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto graph = graph_of(graph_handle);
    auto before = dependencies_of(*graph, dependencies, nullptr, count);
    *out = handle_of<CUgraphNode>(add_node(*graph, make(*graph), before).get());
  });
}

template <typename Parameters>
CUresult add(const char *function, CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
             size_t count, Parameters *parameters,
             const std::function<OperationPointer(Parameters &)> &make) {
  return add(function, out, graph, dependencies, count, [&](Graph &) {
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    return make(*parameters);
  });
}

template <typename Kind, typename Out>
CUresult get(const char *function, CUgraphNode handle, Out *out,
             const std::function<void(const Kind &)> &put) {
  return enter(function, Needs::initialised, [&](Call &) {
    auto node = node_of(handle);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    put(as<Kind>(*node->operation));
  });
}

template <typename Kind, typename In>
CUresult set(const char *function, CUgraphNode handle, const In *in,
             const std::function<OperationPointer(const Kind &)> &make) {
  return enter(function, Needs::initialised, [&](Call &) {
    auto node = node_of(handle);
    require(in != nullptr, CUDA_ERROR_INVALID_VALUE);
    set_operation(*node, make(as<Kind>(*node->operation)));
  });
}

// The first version of the structure lacks `kern` and `ctx`.
CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1 &older) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  std::memcpy(&parameters, &older, sizeof older);
  return parameters;
}

CUDA_KERNEL_NODE_PARAMS parameters_of(const KernelNode &operation) {
  const LaunchShape &shape = operation.shape;
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = operation.handle;
  parameters.gridDimX = shape.grid.x;
  parameters.gridDimY = shape.grid.y;
  parameters.gridDimZ = shape.grid.z;
  parameters.blockDimX = shape.block.x;
  parameters.blockDimY = shape.block.y;
  parameters.blockDimZ = shape.block.z;
  parameters.sharedMemBytes = shape.dynamic_shared_bytes;
  parameters.kernelParams = operation.pointers.data(); // the node's, as documented
  parameters.kern = operation.kernel;
  parameters.ctx = operation.kernel ? handle_of<CUcontext>(operation.where) : nullptr;
  return parameters;
}

} // namespace

// ---- kernels

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return add<const CUDA_KERNEL_NODE_PARAMS_v1>("cuGraphAddKernelNode", phGraphNode, hGraph, dependencies,
                                               numDependencies, nodeParams,
                                               [](auto &p) { return make_kernel(newer(p), {}); });
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies,
                                         const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return add<const CUDA_KERNEL_NODE_PARAMS>("cuGraphAddKernelNode_v2", phGraphNode, hGraph, dependencies,
                                            numDependencies, nodeParams,
                                            [](auto &p) { return make_kernel(p, {}); });
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return get<KernelNode>("cuGraphKernelNodeGetParams", hNode, nodeParams, [&](const auto &operation) {
    auto parameters = parameters_of(operation);
    std::memcpy(nodeParams, &parameters, sizeof *nodeParams);
  });
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return get<KernelNode>("cuGraphKernelNodeGetParams_v2", hNode, nodeParams,
                         [&](const auto &operation) { *nodeParams = parameters_of(operation); });
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return set<KernelNode>("cuGraphKernelNodeSetParams", hNode, nodeParams, [&](const auto &present) {
    return make_kernel(newer(*nodeParams), present.attributes);
  });
}

CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return set<KernelNode>("cuGraphKernelNodeSetParams_v2", hNode, nodeParams,
                         [&](const auto &present) { return make_kernel(*nodeParams, present.attributes); });
}

static void set_attributes(GraphNode &node, const LaunchAttributes &attributes) {
  auto parameters = parameters_of(as<KernelNode>(*node.operation));
  set_operation(node, make_kernel(parameters, attributes));
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                               const CUkernelNodeAttrValue *value) {
  return set<KernelNode>("cuGraphKernelNodeSetAttribute", hNode, value, [&](const auto &present) {
    auto attributes = present.attributes;
    attributes[attr] = *value;
    return make_kernel(parameters_of(present), attributes);
  });
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                               CUkernelNodeAttrValue *value_out) {
  return get<KernelNode>("cuGraphKernelNodeGetAttribute", hNode, value_out, [&](const auto &operation) {
    LaunchShape shape; // throws for what is no attribute of a launch
    CUlaunchAttribute probe{};
    probe.id = attr;
    probe.value.clusterDim = {1, 1, 1};
    apply_attribute(shape, probe);
    *value_out = CUkernelNodeAttrValue{};
    const auto &attributes = operation.attributes;
    const LaunchShape &real = operation.shape;
    if (auto found = attributes.find(attr); found != attributes.end())
      *value_out = found->second;
    else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      value_out->clusterDim = {real.cluster.x, real.cluster.y, real.cluster.z};
    else if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      value_out->cooperative = real.cooperative;
  });
}

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  return enter("cuGraphKernelNodeCopyAttributes", Needs::initialised, [&](Call &) {
    auto to = node_of(dst), from = node_of(src);
    const auto &source = as<KernelNode>(*from->operation);
    require(as<KernelNode>(*to->operation).where == source.where, CUDA_ERROR_INVALID_VALUE);
    set_attributes(*to, source.attributes);
  });
}

// ---- copies and fills

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  return add<const CUDA_MEMCPY3D>("cuGraphAddMemcpyNode", phGraphNode, hGraph, dependencies, numDependencies,
                                  copyParams, [&](auto &p) { return make_copy(ctx, p); });
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams) {
  return get<CopyNode>("cuGraphMemcpyNodeGetParams", hNode, nodeParams,
                       [&](const auto &operation) { *nodeParams = operation.description; });
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
  return set<CopyNode>("cuGraphMemcpyNodeSetParams", hNode, nodeParams, [&](const auto &present) {
    return make_copy(handle_of<CUcontext>(present.where), *nodeParams);
  });
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  return add<const CUDA_MEMSET_NODE_PARAMS>("cuGraphAddMemsetNode", phGraphNode, hGraph, dependencies,
                                            numDependencies, memsetParams,
                                            [&](auto &p) { return make_fill(ctx, p); });
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  return get<FillOperation>("cuGraphMemsetNodeGetParams", hNode, nodeParams, [&](const auto &operation) {
    const FillShape &s = operation.shape;
    *nodeParams = {s.destination, s.pitch_bytes, s.value, s.element_bytes, s.width, s.height};
  });
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  return set<FillOperation>("cuGraphMemsetNodeSetParams", hNode, nodeParams, [&](const auto &present) {
    return make_fill(handle_of<CUcontext>(present.where), *nodeParams);
  });
}

// ---- host functions, events, empty nodes, child graphs

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                    size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return add<const CUDA_HOST_NODE_PARAMS>(
      "cuGraphAddHostNode", phGraphNode, hGraph, dependencies, numDependencies, nodeParams,
      [](auto &p) { return std::make_shared<HostOperation>(p.fn, p.userData); });
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
  return get<HostOperation>("cuGraphHostNodeGetParams", hNode, nodeParams, [&](const auto &operation) {
    *nodeParams = {operation.function, operation.data};
  });
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return set<HostOperation>("cuGraphHostNodeSetParams", hNode, nodeParams, [&](const auto &) {
    return std::make_shared<HostOperation>(nodeParams->fn, nodeParams->userData);
  });
}

static CUresult add_event(const char *function, CUgraphNode *node, CUgraph graph,
                          const CUgraphNode *dependencies, size_t count, CUgraphNodeType type,
                          CUevent event) {
  return add(function, node, graph, dependencies, count,
             [&](Graph &) { return std::make_shared<EventOperation>(type, event); });
}

static CUresult get_event(const char *function, CUgraphNode node, CUgraphNodeType type, CUevent *out) {
  return get<EventOperation>(function, node, out, [&](const auto &operation) {
    require(operation.kind == type, CUDA_ERROR_INVALID_VALUE);
    *out = operation.handle;
  });
}

static CUresult set_event(const char *function, CUgraphNode node, CUgraphNodeType type, CUevent event) {
  return set<EventOperation>(function, node, &event,
                             [&](const auto &) { return std::make_shared<EventOperation>(type, event); });
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                           const CUgraphNode *dependencies, size_t numDependencies,
                                           CUevent event) {
  return add_event("cuGraphAddEventRecordNode", phGraphNode, hGraph, dependencies, numDependencies,
                   CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies,
                                         CUevent event) {
  return add_event("cuGraphAddEventWaitNode", phGraphNode, hGraph, dependencies, numDependencies,
                   CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  return get_event("cuGraphEventRecordNodeGetEvent", hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  return get_event("cuGraphEventWaitNodeGetEvent", hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set_event("cuGraphEventRecordNodeSetEvent", hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return set_event("cuGraphEventWaitNodeSetEvent", hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies) {
  return add("cuGraphAddEmptyNode", phGraphNode, hGraph, dependencies, numDependencies,
             [](Graph &) { return std::make_shared<EmptyOperation>(); });
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                          const CUgraphNode *dependencies, size_t numDependencies,
                                          CUgraph childGraph) {
  return add("cuGraphAddChildGraphNode", phGraphNode, hGraph, dependencies, numDependencies, [&](Graph &) {
    auto operation = make_child(*graph_of(childGraph));
    as<ChildGraphOperation>(*operation).graph->owned_by_node = true;
    return operation;
  });
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
  return get<ChildGraphOperation>(
      "cuGraphChildGraphNodeGetGraph", hNode, phGraph,
      [&](const auto &operation) { *phGraph = handle_of<CUgraph>(operation.graph.get()); });
}

// ---- memory values, allocations, frees

CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                          const CUgraphNode *dependencies, size_t numDependencies,
                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  return add<const CUDA_BATCH_MEM_OP_NODE_PARAMS>("cuGraphAddBatchMemOpNode", phGraphNode, hGraph,
                                                  dependencies, numDependencies, nodeParams,
                                                  [](auto &p) { return make_memory_values(p); });
}

CUresult CUDAAPI cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                                CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out) {
  return get<MemoryValueOperation>("cuGraphBatchMemOpNodeGetParams", hNode, nodeParams_out,
                                   [&](const auto &operation) {
                                     *nodeParams_out = {handle_of<CUcontext>(operation.where),
                                                        static_cast<unsigned>(operation.operations.size()),
                                                        operation.operations.data(), operation.flags};
                                   });
}

CUresult CUDAAPI cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  return set<MemoryValueOperation>("cuGraphBatchMemOpNodeSetParams", hNode, nodeParams,
                                   [&](const auto &) { return make_memory_values(*nodeParams); });
}

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                        const CUgraphNode *dependencies, size_t numDependencies,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
  return add<CUDA_MEM_ALLOC_NODE_PARAMS>("cuGraphAddMemAllocNode", phGraphNode, hGraph, dependencies,
                                         numDependencies, nodeParams,
                                         [](auto &p) { return make_allocate(p); });
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
  return get<AllocateOperation>("cuGraphMemAllocNodeGetParams", hNode, params_out,
                                [&](const auto &operation) { *params_out = operation.parameters; });
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                       const CUgraphNode *dependencies, size_t numDependencies,
                                       CUdeviceptr dptr) {
  return add("cuGraphAddMemFreeNode", phGraphNode, hGraph, dependencies, numDependencies,
             [&](Graph &) { return make_free(dptr); });
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
  return get<FreeOperation>("cuGraphMemFreeNodeGetParams", hNode, dptr_out,
                            [&](const auto &operation) { *dptr_out = operation.address(); });
}
