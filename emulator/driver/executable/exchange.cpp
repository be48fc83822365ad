// Documented with cuGraphExecUpdate, and with the functions that change a single node.
#include "executable.hpp"
#include "graph/node/conditional.hpp"
#include "memory/allocations.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

CUgraphExecUpdateResult allowed(bool holds, CUgraphExecUpdateResult otherwise) {
  return holds ? CU_GRAPH_EXEC_UPDATE_SUCCESS : otherwise;
}

// Device and context of the memory at an address: what an executable node may not change.
std::pair<Device *, Context *> owner_of(uint64_t address) {
  auto allocation = allocations().find(address);
  return allocation ? std::pair(allocation->device, allocation->context) : std::pair<Device *, Context *>();
}

bool same_owner(uint64_t address, uint64_t other) { return owner_of(address) == owner_of(other); }

CUgraphExecUpdateResult kernels(const KernelNode &present, const KernelNode &next) {
  if (present.where != next.where)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  return allowed(present.shape.cooperative == next.shape.cooperative,
                 CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
}

bool copies(const CopyNode &present, const CopyNode &next) {
  return present.description.srcMemoryType == next.description.srcMemoryType &&
         present.description.dstMemoryType == next.description.dstMemoryType &&
         same_owner(present.sides.source.base, next.sides.source.base) &&
         same_owner(present.sides.destination.base, next.sides.destination.base);
}

bool fills(const FillShape &present, const FillShape &next) {
  bool same_size = present.width == next.width && present.height == next.height &&
                   present.element_bytes == next.element_bytes &&
                   (present.height == 1 || present.pitch_bytes == next.pitch_bytes);
  // "For 2d memsets, only address and assigned value may be updated"; "for 1d memsets, changes in height are
  // explicitly rejected".
  bool sizes_may_change = present.height == 1 && next.height == 1;
  return same_owner(present.destination, next.destination) && (same_size || sizes_may_change);
}

bool memory_values(const MemoryValueOperation &present, const MemoryValueOperation &next) {
  return present.where == next.where && present.flags == next.flags &&
         std::equal(present.operations.begin(), present.operations.end(), next.operations.begin(),
                    next.operations.end(), [](auto &a, auto &b) { return a.operation == b.operation; });
}

// The parameters of the node itself; the nodes inside follow the rules of their kind.
bool conditionals(const ConditionalOperation &present, const ConditionalOperation &next) {
  return present.kind == next.kind && present.bodies.size() == next.bodies.size();
}

} // namespace

CUgraphExecUpdateResult exchangeable(const Operation &present, const Operation &next) {
  constexpr auto changed = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  constexpr auto not_supported = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  switch (present.type()) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return kernels(as<KernelNode>(present), as<KernelNode>(next));
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return allowed(copies(as<CopyNode>(present), as<CopyNode>(next)), changed);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return allowed(fills(as<FillOperation>(present).shape, as<FillOperation>(next).shape), changed);
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    return allowed(memory_values(as<MemoryValueOperation>(present), as<MemoryValueOperation>(next)), changed);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return allowed(conditionals(as<ConditionalOperation>(present), as<ConditionalOperation>(next)), changed);
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return allowed(as<AllocateOperation>(present).memory == as<AllocateOperation>(next).memory,
                   not_supported);
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return allowed(as<FreeOperation>(present).memory == as<FreeOperation>(next).memory, not_supported);
  default:
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
}

} // namespace emulator::driver
