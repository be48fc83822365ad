// The kinds of nodes that are the same on every device: what each checks, and the work it gives.
#include "operations.hpp"

#include "device/context.hpp"
#include "graph.hpp"
#include "launch/function.hpp"
#include "memory/allocations.hpp"
#include "module/module.hpp"
#include "stream/event.hpp"
#include "stream/memory_values.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

// Device and context of the memory behind an address: what an executable node may not change.
std::pair<Device *, Context *> owner_of(uint64_t address) {
  auto allocation = driver().allocations->find(address);
  return allocation ? std::pair(allocation->device, allocation->context)
                    : std::pair<Device *, Context *>(nullptr, nullptr);
}

CUmemorytype memory_type(const CopySide &side) {
  auto allocation = driver().allocations->find(side.base);
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

} // namespace

std::shared_ptr<Work> Emitter::run(std::function<Outcome()> function) {
  auto work = std::make_shared<Work>();
  work->run = std::move(function);
  return add(work);
}

CUgraphExecUpdateResult Operation::exchangeable(const Operation &) const {
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void require_alive(const Context &context) {
  require(context.alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  require(context.error == CUDA_SUCCESS, context.error);
}

Context &node_context(CUcontext handle) {
  Context *context =
      handle ? driver().contexts.get(handle, CUDA_ERROR_INVALID_VALUE).get() : current_context();
  require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return *context;
}

// ---- kernels

static OperationPointer kernel_operation(CUfunction function, CUkernel kernel,
                                         std::shared_ptr<const PreparedLaunch> launch) {
  auto operation = std::make_shared<KernelOperation>();
  operation->function = function;
  operation->kernel = kernel;
  auto *packed = const_cast<uint8_t *>(launch->parameters.data());
  for (const auto &parameter : launch->function->info->parameters)
    operation->parameters.push_back(packed + parameter.offset_bytes);
  operation->launch = std::move(launch);
  return operation;
}

OperationPointer make_kernel(CUfunction handle, std::shared_ptr<const PreparedLaunch> launch, int priority) {
  // Documented with cuGraphInstantiate: priorities are copied from the stream during capture.
  auto captured = std::make_shared<PreparedLaunch>(*launch);
  CUlaunchAttributeValue value{};
  value.priority = priority;
  captured->attributes.emplace(CU_LAUNCH_ATTRIBUTE_PRIORITY, value);
  return kernel_operation(handle, nullptr, captured);
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
  auto launch = prepare_launch(function, shape, attributes, parameters.kernelParams, parameters.extra,
                               Grid::may_be_empty);
  return kernel_operation(parameters.func, parameters.func ? nullptr : parameters.kern, launch);
}

void KernelOperation::require_launchable() const {
  require_alive(*launch->context);
  const Dim3 &grid = launch->shape.grid;
  if (grid.x != 0 && grid.y != 0 && grid.z != 0)
    return;
  tell("a graph is not launched: its node of kernel " + launch->function->name + " has an empty grid");
  fail(CUDA_ERROR_INVALID_VALUE);
}

CUgraphExecUpdateResult KernelOperation::exchangeable(const Operation &next) const {
  const auto &other = *static_cast<const KernelOperation &>(next).launch;
  if (other.context != launch->context)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  if (other.shape.cooperative != launch->shape.cooperative)
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// ---- copies

static OperationPointer copy_operation(Context &context, const ShapedCopy &sides,
                                       const CUDA_MEMCPY3D &description) {
  copy_work(context, sides); // for its checks
  auto operation = std::make_shared<CopyOperation>();
  operation->where = &context;
  operation->sides = sides;
  operation->description = description;
  return operation;
}

OperationPointer make_copy(Context &context, const ShapedCopy &sides) {
  return copy_operation(context, sides, described(sides));
}

OperationPointer make_copy(CUcontext context, const CUDA_MEMCPY3D &description) {
  return copy_operation(node_context(context), shaped_copy(description), description);
}

void CopyOperation::require_launchable() const {
  require_alive(*where);
  copy_work(*where, sides);
}

void CopyOperation::emit(Emitter &emitter) const { emitter.run(copy_work(*where, sides)); }

CUgraphExecUpdateResult CopyOperation::exchangeable(const Operation &next) const {
  const auto &other = static_cast<const CopyOperation &>(next);
  bool same_types = description.srcMemoryType == other.description.srcMemoryType &&
                    description.dstMemoryType == other.description.dstMemoryType;
  bool same_owners = owner_of(sides.source.base) == owner_of(other.sides.source.base) &&
                     owner_of(sides.destination.base) == owner_of(other.sides.destination.base);
  return same_types && same_owners ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                   : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

// ---- fills

OperationPointer make_fill(Context &context, const FillShape &shape) {
  plan_fill(context, shape); // for its checks
  auto operation = std::make_shared<FillOperation>();
  operation->where = &context;
  operation->shape = shape;
  return operation;
}

OperationPointer make_fill(CUcontext context, const CUDA_MEMSET_NODE_PARAMS &p) {
  return make_fill(node_context(context), {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height});
}

void FillOperation::require_launchable() const {
  require_alive(*where);
  plan_fill(*where, shape);
}

void FillOperation::emit(Emitter &emitter) const { emitter.run(plan_fill(*where, shape)); }

CUgraphExecUpdateResult FillOperation::exchangeable(const Operation &next) const {
  const auto &other = static_cast<const FillOperation &>(next).shape;
  bool same_size = shape.width == other.width && shape.height == other.height &&
                   shape.element_bytes == other.element_bytes &&
                   (shape.height == 1 || shape.pitch_bytes == other.pitch_bytes);
  // "For 2d memsets, only address and assigned value may be updated"; "for 1d memsets, changes in height are
  // explicitly rejected".
  bool sizes_may_change = shape.height == 1 && other.height == 1;
  bool same_owner = owner_of(shape.destination) == owner_of(other.destination);
  return same_owner && (same_size || sizes_may_change) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                       : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

// ---- host functions, events, memory values

OperationPointer make_host(CUhostFn function, void *data) {
  require(function != nullptr, CUDA_ERROR_INVALID_VALUE);
  auto operation = std::make_shared<HostOperation>();
  operation->function = function;
  operation->data = data;
  return operation;
}

void HostOperation::emit(Emitter &emitter) const {
  auto work = std::make_shared<Work>();
  work->on_host_thread = true;
  work->run = [call = function, with = data]() -> Outcome {
    call(with);
    return {};
  };
  emitter.add(work);
}

OperationPointer make_event(CUgraphNodeType type, CUevent event) {
  auto operation = std::make_shared<EventOperation>(type);
  operation->handle = event;
  operation->event = driver().events.get(event, CUDA_ERROR_INVALID_VALUE);
  return operation;
}

// Documented: "each launch of the graph will record `event` to capture execution of the node's dependencies",
// and "will wait for all work captured in `event`", as of the launch.
void EventOperation::emit(Emitter &emitter) const {
  auto work = std::make_shared<Work>();
  if (kind == CU_GRAPH_NODE_TYPE_WAIT_EVENT && event->recorded)
    work->after.push_back(event->recorded);
  emitter.add(work);
  if (kind == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    event->set_recorded(work);
}

OperationPointer make_memory_values(Context &context, std::vector<CUstreamBatchMemOpParams> operations,
                                    unsigned flags) {
  require(!operations.empty() && operations.size() <= most_memory_operations && flags == 0,
          CUDA_ERROR_INVALID_VALUE);
  auto made = std::make_shared<MemoryValueOperation>();
  made->where = &context;
  made->flags = flags;
  made->operations = std::move(operations);
  for (const auto &operation : made->operations)
    memory_value_work(context, operation); // for its checks
  return made;
}

void MemoryValueOperation::require_launchable() const {
  require_alive(*where);
  for (const auto &operation : operations)
    memory_value_work(*where, operation);
}

void MemoryValueOperation::emit(Emitter &emitter) const {
  for (const auto &operation : operations)
    emitter.add(memory_value_work(*where, operation));
}

// Documented with cuGraphExecBatchMemOpNodeSetParams.
CUgraphExecUpdateResult MemoryValueOperation::exchangeable(const Operation &next) const {
  const auto &other = static_cast<const MemoryValueOperation &>(next);
  bool same =
      where == other.where && flags == other.flags &&
      std::equal(operations.begin(), operations.end(), other.operations.begin(), other.operations.end(),
                 [](const auto &a, const auto &b) { return a.operation == b.operation; });
  return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

OperationPointer make_child(const Graph &graph) {
  auto operation = std::make_shared<ChildGraphOperation>();
  operation->graph = clone(graph);
  return operation;
}

} // namespace emulator::driver
