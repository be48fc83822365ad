// Executable graphs: making, launching and changing them.
#include "entry/entry.hpp"
#include "executable.hpp"
#include "graph/node/node_parameters.hpp"
#include "stream/recorder.hpp"

#include <cstring>

using namespace emulator::driver;

namespace {

std::shared_ptr<GraphExecutable> executable_of(CUgraphExec handle) {
  return graph_handles().executables.get(handle, CUDA_ERROR_INVALID_VALUE);
}

// The node of the executable graph that was made from the named one, which must still be in its graph.
ExecutableNode &node_in(const GraphExecutable &executable, CUgraphNode handle) {
  auto found = executable.by_node.find(node_of(handle)->identifier);
  require(found != executable.by_node.end(), CUDA_ERROR_INVALID_VALUE);
  return *found->second;
}

CUresult instantiate(const char *function, CUgraphExec *out, CUgraph graph, unsigned long long flags) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    GraphNode *offender = nullptr;
    require(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE); // WithParams only
    *out = graph_handles().executables.add(emulator::driver::instantiate(*graph_of(graph), flags, &offender));
  });
}

// The forms that gave a node and a log.
CUresult instantiate_with_log(const char *function, CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                              char *log, size_t log_bytes) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    if (error_node)
      *error_node = nullptr;
    if (log && log_bytes)
      log[0] = '\0';
    GraphNode *offender = nullptr;
    try {
      *out = graph_handles().executables.add(emulator::driver::instantiate(*graph_of(graph), 0, &offender));
    } catch (const Error &) {
      if (error_node)
        *error_node = handle_of<CUgraphNode>(offender);
      if (offender && log && log_bytes) {
        std::strncpy(log, "the graph has a cycle", log_bytes - 1);
        log[log_bytes - 1] = '\0';
      }
      throw;
    }
  });
}

// Exchanges an operation if the rules for executable graphs allow it.
void exchange(ExecutableNode &node, OperationPointer next) {
  require(node.operation->type() == next->type(), CUDA_ERROR_INVALID_VALUE);
  require(exchangeable(*node.operation, *next) == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  // Documented for single nodes: both the present and the new copy must be 1-dimensional.
  if (auto *copy = dynamic_cast<const CopyNode *>(next.get()))
    require(copy->one_dimensional() && as<CopyNode>(*node.operation).one_dimensional(),
            CUDA_ERROR_INVALID_VALUE);
  node.operation = std::move(next);
}

void exchange_child(GraphExecutable &executable, ExecutableNode &node, CUgraph child) {
  require(node.inside != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto answer = update(*node.inside, *graph_of(child), executable.flags);
  require(answer.result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_INVALID_VALUE);
}

CUresult set(const char *function, CUgraphExec handle, CUgraphNode node, const void *parameters,
             const std::function<OperationPointer(const Operation &)> &make) {
  return enter(function, Needs::initialised, [&](Call &) {
    auto executable = executable_of(handle);
    ExecutableNode &present = node_in(*executable, node);
    require(parameters != nullptr, CUDA_ERROR_INVALID_VALUE);
    exchange(present, make(*present.operation));
  });
}

CUresult update(const char *function, CUgraphExec handle, CUgraph graph_handle,
                const std::function<void(const UpdateAnswer &)> &put) {
  return enter(function, Needs::initialised, [&](Call &) {
    UpdateAnswer answer{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
    try {
      auto executable = executable_of(handle);
      auto graph = graph_of(graph_handle);
      require(!graph->owned_by_node && !is_captured_into(*graph), CUDA_ERROR_INVALID_VALUE);
      answer = emulator::driver::update(executable->graph, *graph, executable->flags);
    } catch (...) {
      put(answer);
      throw;
    }
    put(answer);
    require(answer.result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  });
}

// "Currently only kernel, memset and memcpy nodes are supported."
ExecutableNode &switchable(const GraphExecutable &executable, CUgraphNode handle) {
  ExecutableNode &node = node_in(executable, handle);
  auto type = node.operation->type();
  require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET ||
              type == CU_GRAPH_NODE_TYPE_MEMCPY,
          CUDA_ERROR_INVALID_VALUE);
  return node;
}

} // namespace

// ---- instantiation

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                             unsigned long long flags) {
  return instantiate("cuGraphInstantiateWithFlags", phGraphExec, hGraph, flags);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                    char *logBuffer, size_t bufferSize) {
  return instantiate_with_log("cuGraphInstantiate", phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                       char *logBuffer, size_t bufferSize) {
  return instantiate_with_log("cuGraphInstantiate_v2", phGraphExec, hGraph, phErrorNode, logBuffer,
                              bufferSize);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  return enter("cuGraphInstantiateWithParams", Needs::initialised, [&](Call &call) {
    require(phGraphExec != nullptr && instantiateParams != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto &parameters = *instantiateParams;
    parameters.hErrNode_out = nullptr;
    parameters.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    GraphNode *offender = nullptr;
    try {
      if (parameters.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
        Context *context = current_context();
        require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
        refuse_recorded(*stream_of(*context, parameters.hUploadStream));
      }
      auto executable = emulator::driver::instantiate(*graph_of(hGraph), parameters.flags, &offender);
      *phGraphExec = graph_handles().executables.add(executable);
      parameters.result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    } catch (const Error &error) {
      parameters.hErrNode_out = handle_of<CUgraphNode>(offender);
      if (offender)
        parameters.result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
      throw;
    }
    (void)call;
  });
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  return enter("cuGraphExecGetFlags", Needs::initialised, [&](Call &) {
    auto executable = executable_of(hGraphExec);
    require(flags != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = executable->flags;
  });
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec) {
  return enter("cuGraphExecDestroy", Needs::initialised, [&](Call &) {
    // A launch under way has all it needs.
    graph_handles().executables.remove(executable_of(hGraphExec).get());
  });
}

// ---- launches

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  return enter("cuGraphUpload", Needs::healthy, hStream, [&](Call &call) {
    auto executable = executable_of(hGraphExec);
    refuse_recorded(*stream_of(*call.context, hStream)); // nothing is to be prepared
  });
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  return enter("cuGraphLaunch", Needs::healthy, hStream, [&](Call &call) {
    auto executable = executable_of(hGraphExec);
    auto stream = stream_of(*call.context, hStream);
    if (Recorder *recorder = recorder_of(*stream))
      recorder->add(*stream, child_of(executable->graph));
    else
      launch(call.lock, *executable, stream);
  });
}

// ---- changes

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                      CUgraphExecUpdateResultInfo *resultInfo) {
  return update("cuGraphExecUpdate_v2", hGraphExec, hGraph, [&](const UpdateAnswer &answer) {
    require(resultInfo != nullptr, CUDA_ERROR_INVALID_VALUE);
    resultInfo->result = answer.result;
    resultInfo->errorNode = handle_of<CUgraphNode>(answer.node);
    resultInfo->errorFromNode = handle_of<CUgraphNode>(answer.from);
  });
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                   CUgraphExecUpdateResult *updateResult_out) {
  return update("cuGraphExecUpdate", hGraphExec, hGraph, [&](const UpdateAnswer &answer) {
    require(updateResult_out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *updateResult_out = answer.result;
    if (hErrorNode_out)
      *hErrorNode_out = handle_of<CUgraphNode>(answer.node);
  });
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  return enter("cuGraphNodeSetEnabled", Needs::initialised,
               [&](Call &) { switchable(*executable_of(hGraphExec), hNode).enabled = isEnabled != 0; });
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled) {
  return enter("cuGraphNodeGetEnabled", Needs::initialised, [&](Call &) {
    require(isEnabled != nullptr, CUDA_ERROR_INVALID_VALUE);
    *isEnabled = switchable(*executable_of(hGraphExec), hNode).enabled;
  });
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
  return set("cuGraphExecKernelNodeSetParams", hGraphExec, hNode, nodeParams, [&](const Operation &present) {
    CUDA_KERNEL_NODE_PARAMS parameters{};
    std::memcpy(&parameters, nodeParams, sizeof *nodeParams);
    return make_kernel(parameters, as<KernelNode>(present).attributes);
  });
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  return set(
      "cuGraphExecKernelNodeSetParams_v2", hGraphExec, hNode, nodeParams,
      [&](const Operation &present) { return make_kernel(*nodeParams, as<KernelNode>(present).attributes); });
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  return set("cuGraphExecMemcpyNodeSetParams", hGraphExec, hNode, copyParams,
             [&](const Operation &) { return make_copy(ctx, *copyParams); });
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  return set("cuGraphExecMemsetNodeSetParams", hGraphExec, hNode, memsetParams,
             [&](const Operation &) { return make_fill(ctx, *memsetParams); });
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_HOST_NODE_PARAMS *nodeParams) {
  return set("cuGraphExecHostNodeSetParams", hGraphExec, hNode, nodeParams, [&](const Operation &) {
    return std::make_shared<HostOperation>(nodeParams->fn, nodeParams->userData);
  });
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUevent event) {
  return set("cuGraphExecEventRecordNodeSetEvent", hGraphExec, hNode, &event, [&](const Operation &) {
    return std::make_shared<EventOperation>(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  });
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return set("cuGraphExecEventWaitNodeSetEvent", hGraphExec, hNode, &event, [&](const Operation &) {
    return std::make_shared<EventOperation>(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  });
}

CUresult CUDAAPI cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  return set("cuGraphExecBatchMemOpNodeSetParams", hGraphExec, hNode, nodeParams,
             [&](const Operation &) { return make_memory_values(*nodeParams); });
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUgraph childGraph) {
  return enter("cuGraphExecChildGraphNodeSetParams", Needs::initialised, [&](Call &) {
    auto executable = executable_of(hGraphExec);
    exchange_child(*executable, node_in(*executable, hNode), childGraph);
  });
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          CUgraphNodeParams *nodeParams) {
  return enter("cuGraphExecNodeSetParams", Needs::initialised, [&](Call &) {
    auto executable = executable_of(hGraphExec);
    ExecutableNode &node = node_in(*executable, hNode);
    require(nodeParams != nullptr && nodeParams->type == node.operation->type(), CUDA_ERROR_INVALID_VALUE);
    if (node.inside)
      exchange_child(*executable, node, nodeParams->graph.graph);
    else
      exchange(node, operation_of(*nodeParams, node.operation.get(), nullptr));
  });
}
