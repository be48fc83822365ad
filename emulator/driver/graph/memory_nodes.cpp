#include "memory_nodes.hpp"

#include "device/context.hpp"
#include "device/device.hpp"
#include "executable.hpp"
#include "memory/allocations.hpp"

#include <algorithm>
#include <cstring>

using namespace emulator::driver;

namespace emulator::driver {
namespace {

// CUgraphMem_attribute of one device. Nothing is cached: what is reserved is what nodes have.
struct Usage {
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};

Usage &usage_of(const Device &device) {
  static auto *usages = new std::map<const Device *, Usage>;
  return (*usages)[&device];
}

bool contains(const std::vector<std::shared_ptr<GraphMemory>> &all, const std::shared_ptr<GraphMemory> &one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

} // namespace

GraphMemory::GraphMemory(std::shared_ptr<Allocation> made) : allocation(std::move(made)) {
  allocation->graph = this;
  allocation->readable = allocation->writable = 0;
  Usage &usage = usage_of(*allocation->device);
  usage.reserved += allocation->footprint;
  usage.reserved_high = std::max(usage.reserved_high, usage.reserved);
}

std::shared_ptr<GraphMemory> GraphMemory::make(Context &context, size_t bytes) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  return std::shared_ptr<GraphMemory>(new GraphMemory(allocate_device(context, bytes, MemoryKind::device)));
}

GraphMemory::~GraphMemory() {
  usage_of(*allocation->device).reserved -= allocation->footprint;
  if (live_)
    usage_of(*allocation->device).used -= allocation->footprint;
  allocation->graph = nullptr;
  release(allocation);
}

void GraphMemory::note_allocation_in(const Graph &graph) { owner_ = graph.identifier; }

void GraphMemory::require_free_in(const Graph &graph) const {
  bool in_owner = graph.identifier == owner_;
  bool elsewhere = !freed_.empty() && (freed_.size() > 1 || *freed_.begin() != owner_);
  require(!freed_.count(graph.identifier), CUDA_ERROR_INVALID_VALUE);
  require(in_owner ? !elsewhere : !freed_.count(owner_), CUDA_ERROR_INVALID_VALUE);
}

void GraphMemory::note_free_in(const Graph &graph) { freed_.insert(graph.identifier); }

void GraphMemory::issue_allocation() {
  outstanding_ = true;
  kept_ = shared_from_this();
}

void GraphMemory::issue_free() {
  require(outstanding_, CUDA_ERROR_INVALID_VALUE);
  outstanding_ = false;
}

void GraphMemory::begin() {
  live_ = true;
  Usage &usage = usage_of(*allocation->device);
  usage.used += allocation->footprint;
  usage.used_high = std::max(usage.used_high, usage.used);
  // Fresh memory, as every allocation of this driver is.
  std::memset(reinterpret_cast<void *>(allocation->base), settings().poison ? 0xCD : 0, allocation->bytes);
  allocation->readable = allocation->writable = ~0u;
}

void GraphMemory::end() {
  if (live_)
    usage_of(*allocation->device).used -= allocation->footprint;
  live_ = false;
  allocation->readable = allocation->writable = 0;
  if (!outstanding_) {
    auto last = std::move(kept_);
    kept_ = nullptr;
  }
}

// ---- nodes

static OperationPointer allocate_operation(Context &context, CUDA_MEM_ALLOC_NODE_PARAMS parameters) {
  auto operation = std::make_shared<AllocateOperation>();
  operation->memory = GraphMemory::make(context, parameters.bytesize);
  operation->access.assign(parameters.accessDescs, parameters.accessDescs + parameters.accessDescCount);
  operation->parameters = parameters;
  operation->parameters.accessDescs = operation->access.empty() ? nullptr : operation->access.data();
  operation->parameters.dptr = operation->memory->allocation->base;
  return operation;
}

OperationPointer make_allocate(CUDA_MEM_ALLOC_NODE_PARAMS &parameters) {
  const CUmemPoolProps &properties = parameters.poolProps;
  require(properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  require(properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE,
          CUDA_ERROR_INVALID_VALUE); // "IPC is not supported"
  require(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
  Device &device = device_of(properties.location.id);
  // "Must not exceed the number of GPUs".
  require(parameters.accessDescCount <= driver().devices.size() &&
              (parameters.accessDescs != nullptr || parameters.accessDescCount == 0),
          CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < parameters.accessDescCount; ++i)
    device_of(parameters.accessDescs[i].location.id);
  Context *context = current_context();
  if (!context || &context->device != &device)
    context = device.primary.get();
  require(context && context->alive, CUDA_ERROR_INVALID_CONTEXT);
  auto operation = allocate_operation(*context, parameters);
  parameters.dptr = static_cast<const AllocateOperation &>(*operation).parameters.dptr;
  return operation;
}

OperationPointer make_allocate(Context &context, size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters.poolProps.location.id = context.device.ordinal;
  parameters.bytesize = bytes;
  return allocate_operation(context, parameters);
}

Context *AllocateOperation::context() const { return memory->allocation->context; }

void AllocateOperation::require_launchable() const { require_alive(*context()); }

void AllocateOperation::emit(Emitter &emitter) const {
  emitter.run([taken = memory]() -> Outcome {
    Lock lock(driver().mutex);
    taken->begin();
    return {};
  });
}

CUgraphExecUpdateResult AllocateOperation::exchangeable(const Operation &next) const {
  return static_cast<const AllocateOperation &>(next).memory == memory
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
}

OperationPointer make_free(CUdeviceptr address) {
  auto allocation = driver().allocations->find(address);
  require(allocation && allocation->base == address && allocation->graph, CUDA_ERROR_INVALID_VALUE);
  auto operation = std::make_shared<FreeOperation>();
  operation->memory = allocation->graph->shared_from_this();
  return operation;
}

CUdeviceptr FreeOperation::address() const { return memory->allocation->base; }

Context *FreeOperation::context() const { return memory->allocation->context; }

void FreeOperation::require_launchable() const { require_alive(*context()); }

void FreeOperation::emit(Emitter &emitter) const {
  emitter.run([freed = memory]() -> Outcome {
    Lock lock(driver().mutex);
    freed->end();
    return {};
  });
}

CUgraphExecUpdateResult FreeOperation::exchangeable(const Operation &next) const {
  return static_cast<const FreeOperation &>(next).memory == memory ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                   : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
}

// ---- launches

MemoryPlan::MemoryPlan(const GraphExecutable &executable) {
  add(executable.graph);
  bool frees = executable.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  for (const auto &memory : allocated_)
    if (memory->outstanding()) {
      require(frees, CUDA_ERROR_INVALID_VALUE);
      left_over_.push_back(memory);
    }
  for (const auto &memory : freed_)
    require(memory->outstanding() || contains(allocated_, memory), CUDA_ERROR_INVALID_VALUE);
}

void MemoryPlan::add(const ExecutableGraph &graph) {
  for (const auto &node : graph.nodes) {
    if (auto *allocate = dynamic_cast<const AllocateOperation *>(node.operation.get()))
      allocated_.push_back(allocate->memory);
    if (auto *free = dynamic_cast<const FreeOperation *>(node.operation.get()))
      freed_.push_back(free->memory);
    if (node.inside)
      add(*node.inside);
  }
}

void MemoryPlan::free_left_over(Work &entry) {
  if (left_over_.empty())
    return;
  for (const auto &memory : left_over_)
    memory->issue_free();
  entry.run = [left_over = left_over_]() -> Outcome {
    Lock lock(driver().mutex);
    for (const auto &memory : left_over)
      memory->end();
    return {};
  };
}

void MemoryPlan::note_launch() {
  for (const auto &memory : allocated_)
    memory->issue_allocation();
  for (const auto &memory : freed_)
    memory->issue_free();
}

std::vector<std::shared_ptr<GraphMemory>> MemoryPlan::used() const {
  auto all = allocated_;
  all.insert(all.end(), freed_.begin(), freed_.end());
  return all;
}

} // namespace emulator::driver

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  return enter("cuDeviceGraphMemTrim", Needs::initialised,
               [&](Call &) { device_of(device); }); // nothing is kept that nobody uses
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
  return enter("cuDeviceGetGraphMemAttribute", Needs::initialised, [&](Call &) {
    const Usage &usage = usage_of(device_of(device));
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto put = [value](uint64_t bytes) { *static_cast<cuuint64_t *>(value) = bytes; };
    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      return put(usage.used);
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      return put(usage.used_high);
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      return put(usage.reserved);
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      return put(usage.reserved_high);
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
    }
  });
}

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
  return enter("cuDeviceSetGraphMemAttribute", Needs::initialised, [&](Call &) {
    Usage &usage = usage_of(device_of(device));
    // "High watermark can only be reset to zero."
    require(value != nullptr && *static_cast<cuuint64_t *>(value) == 0, CUDA_ERROR_INVALID_VALUE);
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
      usage.used_high = usage.used;
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
      usage.reserved_high = usage.reserved;
    else
      fail(CUDA_ERROR_INVALID_VALUE);
  });
}
