// Which functions are exceptions: the table marks each of them `custom`. One of them without a row here is
// custom for the engine alone.
#include "call/exceptions.h"

#include "arguments/arguments.h"
#include "driver/real.h"
#include "graph/graph.h"

static const struct {
  void (*enter)(struct call *call);
  void (*leave)(struct call *call);
} exceptions[] = {
    [ID_cuLaunchKernel] = {launch_enter, NULL},
    [ID_cuLaunchKernelEx] = {launch_enter, NULL},
    [ID_cuLaunchCooperativeKernel] = {launch_enter, NULL},
    [ID_cuLaunch] = {launch_enter, NULL},
    [ID_cuLaunchGrid] = {launch_enter, NULL},
    [ID_cuLaunchGridAsync] = {launch_enter, NULL},
    [ID_cuMemcpy2D_v2] = {rectangle_enter, rectangle_leave},
    [ID_cuMemcpy2DUnaligned_v2] = {rectangle_enter, rectangle_leave},
    [ID_cuMemcpy2DAsync_v2] = {rectangle_enter, NULL},
    [ID_cuMemcpy3D_v2] = {rectangle_enter, rectangle_leave},
    [ID_cuMemcpy3DAsync_v2] = {rectangle_enter, NULL},
    [ID_cuMemcpy] = {copy_enter, copy_leave},
    [ID_cuMemcpyAsync] = {copy_enter, NULL},
    [ID_cuMemcpyWithAttributesAsync] = {copy_enter, NULL},
    [ID_cuMemcpy3DPeer] = {rectangle_enter, rectangle_leave},
    [ID_cuMemcpy3DPeerAsync] = {rectangle_enter, NULL},
    [ID_cuMemcpyBatchAsync] = {batch_enter, NULL},
    [ID_cuMemcpyBatchAsync_v2] = {batch_enter, NULL},
    [ID_cuMemcpy3DBatchAsync] = {batch_enter, NULL},
    [ID_cuMemcpy3DBatchAsync_v2] = {batch_enter, NULL},
    [ID_cuMemcpy3DWithAttributesAsync] = {batch_enter, NULL},
    [ID_cuModuleLoad] = {load_file_enter, NULL},
    [ID_cuLibraryLoadFromFile] = {load_file_enter, NULL},
    [ID_cuModuleGetGlobal_v2] = {NULL, variable_leave},
    [ID_cuLibraryGetGlobal] = {NULL, variable_leave},
    [ID_cuLibraryGetManaged] = {NULL, variable_leave},
    [ID_cuCtxCreate_v4] = {context_enter, NULL},
    [ID_cuIpcOpenMemHandle] = {NULL, import_leave},
    [ID_cuIpcOpenMemHandle_v2] = {NULL, import_leave},
    [ID_cuExternalMemoryGetMappedBuffer] = {NULL, import_leave},
    [ID_cuMemPoolImportPointer] = {NULL, import_leave},
    [ID_cuArrayCreate_v2] = {NULL, array_leave},
    [ID_cuArray3DCreate_v2] = {NULL, array_leave},
    [ID_cuMipmappedArrayCreate] = {NULL, array_leave},
    [ID_cuGraphInstantiate] = {graph_enter, NULL},
    [ID_cuGraphInstantiate_v2] = {graph_enter, NULL},
    [ID_cuGraphInstantiateWithFlags] = {graph_enter, NULL},
    [ID_cuGraphInstantiateWithParams] = {graph_enter, NULL},
    [ID_cuGraphExecUpdate] = {graph_enter, NULL},
    [ID_cuGraphExecUpdate_v2] = {graph_enter, NULL},
    [ID_cuGraphExecKernelNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphExecKernelNodeSetParams_v2] = {graph_enter, NULL},
    [ID_cuGraphExecMemcpyNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphExecMemsetNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphExecHostNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphExecChildGraphNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphExecEventRecordNodeSetEvent] = {graph_enter, NULL},
    [ID_cuGraphExecEventWaitNodeSetEvent] = {graph_enter, NULL},
    [ID_cuGraphExecBatchMemOpNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphExecNodeSetParams] = {graph_enter, NULL},
    [ID_cuGraphLaunch] = {graph_launch_enter, NULL},
    [ID_cuTensorMapEncodeTiled] = {tensor_map_enter, NULL},
    [ID_cuTensorMapEncodeIm2col] = {tensor_map_enter, NULL},
    [ID_cuTensorMapEncodeIm2colWide] = {tensor_map_enter, NULL},
};

enum { EXCEPTIONS = sizeof exceptions / sizeof exceptions[0] };

void custom_enter(struct call *call) {
  unsigned id = call->function->id;
  if ((call->function->flags & FLAG_CUSTOM) && id < EXCEPTIONS && exceptions[id].enter != NULL)
    exceptions[id].enter(call);
}

void custom_leave(struct call *call, int result) {
  unsigned id = call->function->id;
  if (result == SUCCESS && (call->function->flags & FLAG_CUSTOM) && id < EXCEPTIONS &&
      exceptions[id].leave != NULL)
    exceptions[id].leave(call);
}
