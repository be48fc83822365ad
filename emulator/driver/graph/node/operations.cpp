// What nodes of each kind check, beyond what streams do.
#include "operations.hpp"

#include "array/copy_shaped.hpp"
#include "entry/entry.hpp"
#include "graph/graph.hpp"
#include "memory/allocations.hpp"
#include "module/function.hpp"
#include "module/module.hpp"

namespace emulator::driver {
namespace {

CUmemorytype memory_type(const CopySide &side) {
  auto allocation = allocations().find(side.base);
  return !allocation || allocation->is_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

// What a captured copy looks like to cuGraphMemcpyNodeGetParams.
CUDA_MEMCPY3D described(const ShapedCopy &sides) {
  const auto &[to, from, shape] = sides;
  CUDA_MEMCPY3D description{};
  description.srcMemoryType = memory_type(from);
  if (description.srcMemoryType == CU_MEMORYTYPE_HOST)
    description.srcHost = reinterpret_cast<const void *>(from.base);
  else
    description.srcDevice = from.base;
  description.srcPitch = from.pitch_bytes;
  description.srcHeight = from.pitch_bytes ? from.slice_bytes / from.pitch_bytes : 0;
  description.dstMemoryType = memory_type(to);
  if (description.dstMemoryType == CU_MEMORYTYPE_HOST)
    description.dstHost = reinterpret_cast<void *>(to.base);
  else
    description.dstDevice = to.base;
  description.dstPitch = to.pitch_bytes;
  description.dstHeight = to.pitch_bytes ? to.slice_bytes / to.pitch_bytes : 0;
  description.WidthInBytes = shape.width_bytes;
  description.Height = shape.height;
  description.Depth = shape.depth;
  return description;
}

template <typename Kind> std::shared_ptr<Kind> checked(std::shared_ptr<Kind> operation) {
  operation->check();
  return operation;
}

} // namespace

KernelNode::KernelNode(const KernelOperation &launch) : KernelOperation(launch) {
  for (const auto &parameter : function->info->parameters)
    pointers.push_back(parameters.data() + parameter.offset_bytes);
}

Context &node_context(CUcontext handle) {
  Context *context =
      handle ? driver().contexts.get(handle, CUDA_ERROR_INVALID_VALUE).get() : current_context();
  require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return *context;
}

void require_launchable(const Operation &operation) {
  if (const Context *context = operation.context()) {
    require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(context->error == CUDA_SUCCESS, context->error);
  }
  if (operation.type() == CU_GRAPH_NODE_TYPE_KERNEL) {
    const auto &launch = static_cast<const KernelOperation &>(operation);
    const Dim3 &grid = launch.shape.grid;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
      tell("a graph is not launched: its node of kernel " + launch.function->name + " has an empty grid");
      fail(CUDA_ERROR_INVALID_VALUE);
    }
  }
  operation.check();
}

OperationPointer as_node(const OperationPointer &operation, int priority) {
  if (auto *launch = dynamic_cast<const KernelOperation *>(operation.get())) {
    // Documented with cuGraphInstantiate: priorities are copied from the stream during capture.
    auto node = std::make_shared<KernelNode>(*launch);
    CUlaunchAttributeValue value{};
    value.priority = priority;
    node->attributes.emplace(CU_LAUNCH_ATTRIBUTE_PRIORITY, value);
    return node;
  }
  if (auto *copy = dynamic_cast<const CopyOperation *>(operation.get()))
    return std::make_shared<CopyNode>(*copy, described(copy->sides));
  return operation;
}

OperationPointer make_kernel(const CUDA_KERNEL_NODE_PARAMS &parameters, const LaunchAttributes &attributes) {
  auto handle = parameters.func ? parameters.func : reinterpret_cast<CUfunction>(parameters.kern);
  require(handle != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto function = driver().functions.find(handle);
  if (!function) // a CUkernel runs in the context that is named, else in the current one
    function = function_of(node_context(parameters.func ? nullptr : parameters.ctx), handle);
  LaunchShape shape;
  shape.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  shape.block = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ};
  shape.dynamic_shared_bytes = parameters.sharedMemBytes;
  for (const auto &[identifier, value] : attributes) {
    CUlaunchAttribute attribute{};
    attribute.id = static_cast<CUlaunchAttributeID>(identifier);
    attribute.value = value;
    apply_attribute(shape, attribute);
  }
  shape.completion_event = nullptr; // events of launches belong to streams
  auto node = std::make_shared<KernelNode>(*prepare_launch(parameters.func, function, shape, attributes,
                                                           parameters.kernelParams, parameters.extra,
                                                           Grid::may_be_empty));
  node->kernel = parameters.func ? nullptr : parameters.kern;
  return node;
}

OperationPointer make_copy(CUcontext context, const CUDA_MEMCPY3D &description) {
  return checked(std::make_shared<CopyNode>(CopyOperation(node_context(context), shaped_copy(description)),
                                            description));
}

OperationPointer make_fill(CUcontext context, const CUDA_MEMSET_NODE_PARAMS &p) {
  FillShape shape{p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
  return checked(std::make_shared<FillOperation>(node_context(context), shape));
}

OperationPointer make_memory_values(const CUDA_BATCH_MEM_OP_NODE_PARAMS &p) {
  return checked(std::make_shared<MemoryValueOperation>(node_context(p.ctx), p.paramArray, p.count, p.flags));
}

OperationPointer make_child(const Graph &graph) {
  auto operation = std::make_shared<ChildGraphOperation>();
  operation->graph = clone(graph);
  return operation;
}

} // namespace emulator::driver
