#include "memory_nodes.hpp"

#include "device/device.hpp"
#include "entry/entry.hpp"
#include "graph/graph.hpp"

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

} // namespace

GraphMemory::GraphMemory(std::shared_ptr<Allocation> made) : allocation(std::move(made)) {
  allocation->kept = this;
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
  allocation->kept = nullptr;
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

Works AllocateOperation::works() const {
  return one_work([taken = memory]() -> Outcome {
    Lock lock(driver().mutex);
    taken->begin();
    return {};
  });
}

OperationPointer make_free(CUdeviceptr address) {
  auto allocation = allocations().find(address);
  require(allocation && allocation->base == address && allocation->kept, CUDA_ERROR_INVALID_VALUE);
  auto operation = std::make_shared<FreeOperation>();
  operation->memory = std::static_pointer_cast<GraphMemory>(allocation->kept->shared_from_this());
  return operation;
}

CUdeviceptr FreeOperation::address() const { return memory->allocation->base; }

Context *FreeOperation::context() const { return memory->allocation->context; }

Works FreeOperation::works() const {
  return one_work([freed = memory]() -> Outcome {
    Lock lock(driver().mutex);
    freed->end();
    return {};
  });
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
