// Nodes of each kind: added to a graph, asked for their parameters, changed in the graph and in what was made
// from it.
#include "core/entry.hpp"
#include "core/same.hpp"
#include "memory/copy_shape.hpp"
#include "nodes.hpp"

using namespace emulator::runtime;

namespace {

Result add_copy(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                const CUDA_MEMCPY3D &shape) {
  return driver.call_cuGraphAddMemcpyNode(node, graph, dependencies, count, &shape, current_context());
}

Result set_copy(cudaGraphNode_t node, const CUDA_MEMCPY3D &shape) {
  return driver.call_cuGraphMemcpyNodeSetParams(node, &shape);
}

Result set_copy(cudaGraphExec_t graph, cudaGraphNode_t node, const CUDA_MEMCPY3D &shape) {
  return driver.call_cuGraphExecMemcpyNodeSetParams(graph, node, &shape, current_context());
}

} // namespace

// Kernels

cudaError_t CUDARTAPI cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                             const cudaKernelNodeParams *pNodeParams) {
  return enter(Needs::context, [&] {
    CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(pNodeParams);
    return driver.call_cuGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, &parameters);
  });
}

cudaError_t CUDARTAPI cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *pNodeParams) {
  return enter(Needs::context, [&] {
    require(pNodeParams != nullptr, cudaErrorInvalidValue);
    CUDA_KERNEL_NODE_PARAMS parameters{};
    require(driver.call_cuGraphKernelNodeGetParams(node, &parameters));
    *pNodeParams = kernel_node(parameters);
  });
}

cudaError_t CUDARTAPI cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                   const cudaKernelNodeParams *pNodeParams) {
  return enter(Needs::context, [&] {
    CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(pNodeParams);
    return driver.call_cuGraphKernelNodeSetParams(node, &parameters);
  });
}

cudaError_t CUDARTAPI cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                       const cudaKernelNodeParams *pNodeParams) {
  return enter(Needs::context, [&] {
    CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(pNodeParams);
    return driver.call_cuGraphExecKernelNodeSetParams(hGraphExec, node, &parameters);
  });
}

cudaError_t CUDARTAPI cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                                      cudaLaunchAttributeValue *value_out) {
  return enter(Needs::context, [&] {
    return driver.call_cuGraphKernelNodeGetAttribute(hNode, static_cast<CUlaunchAttributeID>(attr),
                                                     same(value_out));
  });
}

cudaError_t CUDARTAPI cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                                      const cudaLaunchAttributeValue *value) {
  return enter(Needs::context, [&] {
    return driver.call_cuGraphKernelNodeSetAttribute(hNode, static_cast<CUlaunchAttributeID>(attr),
                                                     same(value));
  });
}

// The headers of CUDA 12 and 13 name the two parameters in opposite orders; the documentation of both says
// "copies attributes from source node to destination node" with the driver's order, which is destination
// first.
cudaError_t CUDARTAPI cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc) {
  return enter(Needs::context, [&] { return driver.call_cuGraphKernelNodeCopyAttributes(hDst, hSrc); });
}

// Copies

cudaError_t CUDARTAPI cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                             const cudaMemcpy3DParms *pCopyParams) {
  return enter(Needs::context, [&] {
    return add_copy(pGraphNode, graph, pDependencies, numDependencies, shape_3d(pCopyParams));
  });
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                               void *dst, const void *src, size_t count,
                                               cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return add_copy(pGraphNode, graph, pDependencies, numDependencies, copy_node(dst, src, count, kind));
  });
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                     const cudaGraphNode_t *pDependencies,
                                                     size_t numDependencies, const void *symbol,
                                                     const void *src, size_t count, size_t offset,
                                                     cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return add_copy(pGraphNode, graph, pDependencies, numDependencies,
                    copy_to_symbol_node(symbol, src, count, offset, kind));
  });
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                       const cudaGraphNode_t *pDependencies,
                                                       size_t numDependencies, void *dst, const void *symbol,
                                                       size_t count, size_t offset, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return add_copy(pGraphNode, graph, pDependencies, numDependencies,
                    copy_from_symbol_node(dst, symbol, count, offset, kind));
  });
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms *pNodeParams) {
  return enter(Needs::context, [&] {
    require(pNodeParams != nullptr, cudaErrorInvalidValue);
    CUDA_MEMCPY3D shape{};
    require(driver.call_cuGraphMemcpyNodeGetParams(node, &shape));
    *pNodeParams = parameters_of(shape);
  });
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                   const cudaMemcpy3DParms *pNodeParams) {
  return enter(Needs::context, [&] { return set_copy(node, shape_3d(pNodeParams)); });
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                                     size_t count, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] { return set_copy(node, copy_node(dst, src, count, kind)); });
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                           const void *src, size_t count, size_t offset,
                                                           cudaMemcpyKind kind) {
  return enter(Needs::context,
               [&] { return set_copy(node, copy_to_symbol_node(symbol, src, count, offset, kind)); });
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                             const void *symbol, size_t count, size_t offset,
                                                             cudaMemcpyKind kind) {
  return enter(Needs::context,
               [&] { return set_copy(node, copy_from_symbol_node(dst, symbol, count, offset, kind)); });
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms *pNodeParams) {
  return enter(Needs::context, [&] { return set_copy(hGraphExec, node, shape_3d(pNodeParams)); });
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                         void *dst, const void *src, size_t count,
                                                         cudaMemcpyKind kind) {
  return enter(Needs::context, [&] { return set_copy(hGraphExec, node, copy_node(dst, src, count, kind)); });
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                               cudaGraphNode_t node, const void *symbol,
                                                               const void *src, size_t count, size_t offset,
                                                               cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return set_copy(hGraphExec, node, copy_to_symbol_node(symbol, src, count, offset, kind));
  });
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                                 cudaGraphNode_t node, void *dst,
                                                                 const void *symbol, size_t count,
                                                                 size_t offset, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return set_copy(hGraphExec, node, copy_from_symbol_node(dst, symbol, count, offset, kind));
  });
}

// Fills, host functions, child graphs, events, memory

// clang-format off
FORWARD(cudaGraphAddMemsetNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         const cudaMemsetParams *pMemsetParams),
        cuGraphAddMemsetNode,
        (pGraphNode, graph, pDependencies, numDependencies, same(pMemsetParams), current_context()))
FORWARD(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams *pNodeParams),
        cuGraphMemsetNodeGetParams, (node, same(pNodeParams)))
FORWARD(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t node, const cudaMemsetParams *pNodeParams),
        cuGraphMemsetNodeSetParams, (node, same(pNodeParams)))
FORWARD(cudaGraphExecMemsetNodeSetParams,
        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemsetParams *pNodeParams),
        cuGraphExecMemsetNodeSetParams, (hGraphExec, node, same(pNodeParams), current_context()))

FORWARD(cudaGraphAddHostNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         const cudaHostNodeParams *pNodeParams),
        cuGraphAddHostNode, (pGraphNode, graph, pDependencies, numDependencies, same(pNodeParams)))
FORWARD(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams *pNodeParams),
        cuGraphHostNodeGetParams, (node, same(pNodeParams)))
FORWARD(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const cudaHostNodeParams *pNodeParams),
        cuGraphHostNodeSetParams, (node, same(pNodeParams)))
FORWARD(cudaGraphExecHostNodeSetParams,
        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaHostNodeParams *pNodeParams),
        cuGraphExecHostNodeSetParams, (hGraphExec, node, same(pNodeParams)))

FORWARD(cudaGraphAddChildGraphNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         cudaGraph_t childGraph),
        cuGraphAddChildGraphNode, (pGraphNode, graph, pDependencies, numDependencies, childGraph))
FORWARD(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *pGraph),
        cuGraphChildGraphNodeGetGraph, (node, pGraph))
FORWARD(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph),
        cuGraphExecChildGraphNodeSetParams, (hGraphExec, node, childGraph))

FORWARD(cudaGraphAddEmptyNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies),
        cuGraphAddEmptyNode, (pGraphNode, graph, pDependencies, numDependencies))
FORWARD(cudaGraphAddEventRecordNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         cudaEvent_t event),
        cuGraphAddEventRecordNode, (pGraphNode, graph, pDependencies, numDependencies, event))
FORWARD(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event_out),
        cuGraphEventRecordNodeGetEvent, (node, event_out))
FORWARD(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
        cuGraphEventRecordNodeSetEvent, (node, event))
FORWARD(cudaGraphExecEventRecordNodeSetEvent, (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event),
        cuGraphExecEventRecordNodeSetEvent, (hGraphExec, hNode, event))
FORWARD(cudaGraphAddEventWaitNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         cudaEvent_t event),
        cuGraphAddEventWaitNode, (pGraphNode, graph, pDependencies, numDependencies, event))
FORWARD(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event_out),
        cuGraphEventWaitNodeGetEvent, (node, event_out))
FORWARD(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
        cuGraphEventWaitNodeSetEvent, (node, event))
FORWARD(cudaGraphExecEventWaitNodeSetEvent, (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event),
        cuGraphExecEventWaitNodeSetEvent, (hGraphExec, hNode, event))

FORWARD(cudaGraphAddMemAllocNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         cudaMemAllocNodeParams *nodeParams),
        cuGraphAddMemAllocNode, (pGraphNode, graph, pDependencies, numDependencies, same(nodeParams)))
FORWARD(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, cudaMemAllocNodeParams *params_out),
        cuGraphMemAllocNodeGetParams, (node, same(params_out)))
FORWARD(cudaGraphAddMemFreeNode,
        (cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
         void *dptr),
        cuGraphAddMemFreeNode, (pGraphNode, graph, pDependencies, numDependencies, device_pointer(dptr)))
FORWARD(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *dptr_out),
        cuGraphMemFreeNodeGetParams, (node, static_cast<CUdeviceptr *>(dptr_out)))
