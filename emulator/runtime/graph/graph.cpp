// Graphs: their shape, what is made from them, objects that they own.
#include "core/entry.hpp"
#include "core/same.hpp"
#include "nodes.hpp"

using namespace emulator::runtime;

namespace {

CUresult add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                  const cudaGraphEdgeData *edges, size_t count, cudaGraphNodeParams *parameters) {
  CUgraphNodeParams converted = any_node(parameters);
  CUresult result = driver.call_cuGraphAddNode(node, graph, dependencies, same(edges), count, &converted);
  if (result == CUDA_SUCCESS)
    write_back(converted, parameters);
  return result;
}

} // namespace

cudaError_t CUDARTAPI cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *nodeParams) {
  return enter(Needs::context, [&] {
    CUgraphNodeParams converted = any_node(nodeParams);
    return driver.call_cuGraphNodeSetParams(node, &converted);
  });
}

cudaError_t CUDARTAPI cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                                 cudaGraphNodeParams *nodeParams) {
  return enter(Needs::context, [&] {
    CUgraphNodeParams converted = any_node(nodeParams);
    return driver.call_cuGraphExecNodeSetParams(graphExec, node, &converted);
  });
}

cudaError_t CUDARTAPI cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *pType) {
  return enter(Needs::context, [&] { return driver.call_cuGraphNodeGetType(node, same(pType)); });
}

// clang-format off
FORWARD(cudaGraphCreate, (cudaGraph_t *pGraph, unsigned int flags), cuGraphCreate, (pGraph, flags))
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy, (graph))
FORWARD(cudaGraphClone, (cudaGraph_t *pGraphClone, cudaGraph_t originalGraph), cuGraphClone, (pGraphClone, originalGraph))
FORWARD(cudaGraphNodeFindInClone, (cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph),
        cuGraphNodeFindInClone, (pNode, originalNode, clonedGraph))
FORWARD(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode, (node))
FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes),
        cuGraphGetNodes, (graph, nodes, numNodes))
FORWARD(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes),
        cuGraphGetRootNodes, (graph, pRootNodes, pNumRootNodes))
FORWARD(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags),
        cuGraphDebugDotPrint, (graph, path, flags))
FORWARD(cudaGraphConditionalHandleCreate,
        (cudaGraphConditionalHandle *pHandle_out, cudaGraph_t graph, unsigned int defaultLaunchValue,
         unsigned int flags),
        cuGraphConditionalHandleCreate, (reinterpret_cast<CUgraphConditionalHandle *>(pHandle_out), graph, current_context(), defaultLaunchValue, flags))

// The driver takes edge data in all of these; CUDA 13 gave the runtime's functions that parameter under the old names.
#define ADD_NODE(name)                                                                                                 \
  cudaError_t CUDARTAPI name(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,     \
                             const cudaGraphEdgeData *dependencyData, size_t numDependencies,                          \
                             cudaGraphNodeParams *nodeParams) {                                                        \
    return enter(Needs::context, [&] {                                                                                 \
      return add_node(pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams);                  \
    });                                                                                                                \
  }
#if CUDART_VERSION >= 13000
#define WITH_EDGES(name) name
#else
#define WITH_EDGES(name) name##_v2
FORWARD(cudaGraphAddDependencies,
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t numDependencies),
        cuGraphAddDependencies, (graph, from, to, nullptr, numDependencies))
FORWARD(cudaGraphRemoveDependencies,
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t numDependencies),
        cuGraphRemoveDependencies, (graph, from, to, nullptr, numDependencies))
FORWARD(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *numEdges),
        cuGraphGetEdges, (graph, from, to, nullptr, numEdges))
FORWARD(cudaGraphNodeGetDependencies,
        (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, size_t *pNumDependencies),
        cuGraphNodeGetDependencies, (node, pDependencies, nullptr, pNumDependencies))
FORWARD(cudaGraphNodeGetDependentNodes,
        (cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, size_t *pNumDependentNodes),
        cuGraphNodeGetDependentNodes, (node, pDependentNodes, nullptr, pNumDependentNodes))
cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       cudaGraphNodeParams *nodeParams) {
  return enter(Needs::context, [&] {
    return add_node(pGraphNode, graph, pDependencies, nullptr, numDependencies, nodeParams);
  });
}
#endif
ADD_NODE(WITH_EDGES(cudaGraphAddNode))
FORWARD(WITH_EDGES(cudaGraphAddDependencies),
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
         size_t numDependencies),
        cuGraphAddDependencies, (graph, from, to, same(edgeData), numDependencies))
FORWARD(WITH_EDGES(cudaGraphRemoveDependencies),
        (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
         size_t numDependencies),
        cuGraphRemoveDependencies, (graph, from, to, same(edgeData), numDependencies))
FORWARD(WITH_EDGES(cudaGraphGetEdges),
        (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edgeData, size_t *numEdges),
        cuGraphGetEdges, (graph, from, to, same(edgeData), numEdges))
FORWARD(WITH_EDGES(cudaGraphNodeGetDependencies),
        (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData, size_t *pNumDependencies),
        cuGraphNodeGetDependencies, (node, pDependencies, same(edgeData), pNumDependencies))
FORWARD(WITH_EDGES(cudaGraphNodeGetDependentNodes),
        (cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData *edgeData,
         size_t *pNumDependentNodes),
        cuGraphNodeGetDependentNodes, (node, pDependentNodes, same(edgeData), pNumDependentNodes))

FORWARD(cudaGraphInstantiate, (cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags, (pGraphExec, graph, flags))
FORWARD(cudaGraphInstantiateWithFlags, (cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags, (pGraphExec, graph, flags))
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), cuGraphExecDestroy, (graphExec))
FORWARD(cudaGraphExecGetFlags, (cudaGraphExec_t graphExec, unsigned long long *flags),
        cuGraphExecGetFlags, (graphExec, reinterpret_cast<cuuint64_t *>(flags)))
FORWARD(cudaGraphExecUpdate,
        (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo),
        cuGraphExecUpdate, (hGraphExec, hGraph, same(resultInfo)))
FORWARD(cudaGraphNodeSetEnabled, (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled),
        cuGraphNodeSetEnabled, (hGraphExec, hNode, isEnabled))
FORWARD(cudaGraphNodeGetEnabled, (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled),
        cuGraphNodeGetEnabled, (hGraphExec, hNode, isEnabled))

FORWARD(cudaUserObjectCreate,
        (cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy, unsigned int initialRefcount,
         unsigned int flags),
        cuUserObjectCreate, (object_out, ptr, destroy, initialRefcount, flags))
FORWARD(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count), cuUserObjectRetain, (object, count))
FORWARD(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count), cuUserObjectRelease, (object, count))
FORWARD(cudaGraphRetainUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
        cuGraphRetainUserObject, (graph, object, count, flags))
FORWARD(cudaGraphReleaseUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
        cuGraphReleaseUserObject, (graph, object, count))

FORWARD(cudaDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim, (device_of(device)))
FORWARD(cudaDeviceGetGraphMemAttribute, (int device, cudaGraphMemAttributeType attr, void *value),
        cuDeviceGetGraphMemAttribute, (device_of(device), static_cast<CUgraphMem_attribute>(attr), value))
FORWARD(cudaDeviceSetGraphMemAttribute, (int device, cudaGraphMemAttributeType attr, void *value),
        cuDeviceSetGraphMemAttribute, (device_of(device), static_cast<CUgraphMem_attribute>(attr), value))
FORWARD(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode *mode),
        cuThreadExchangeStreamCaptureMode, (same(mode)))
