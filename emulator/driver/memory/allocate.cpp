// How memory is given out and taken back.
#include "allocations.hpp"
#include "device/context.hpp"
#include "device/device.hpp"
#include "exec/interface/global_shadow.hpp"
#include "pool.hpp"

#include <algorithm>
#include <sys/mman.h>

namespace emulator::driver {
namespace {

Heap &host_heap() {
  static Heap *only = new Heap;
  return *only;
}

bool has_bit(uint32_t mask, int ordinal) { return (mask >> ordinal) & 1u; }

// 0 when the process has no more memory, of whatever sort.
uint64_t allocate_in(Heap &heap, uint64_t bytes, uint64_t alignment = allocation_alignment) {
  try {
    return heap.allocate(bytes, alignment);
  } catch (const std::bad_alloc &) {
    return 0;
  }
}

std::shared_ptr<Allocation> enter_allocation(Context &context, Device *device, uint64_t base, uint64_t bytes,
                                             MemoryKind kind, unsigned flags) {
  auto allocation = std::make_shared<Allocation>();
  allocation->base = base;
  allocation->bytes = bytes;
  allocation->kind = kind;
  allocation->device = device;
  allocation->context = &context;
  allocation->flags = flags;
  allocation->everywhere = device == nullptr || kind == MemoryKind::managed;
  allocation->footprint = Heap::footprint(bytes);
  if (device) {
    Pages pages = device->heap->pages_around(base);
    allocation->pages_base = pages.base;
    allocation->pages_end = pages.end;
  }
  allocations().insert(allocation);
  if (is_followed(*allocation))
    global_shadow().begin(base, bytes);
  return allocation;
}

} // namespace

bool may_touch(const Context &context, const Allocation &allocation, bool write) {
  uint32_t mask = write ? allocation.writable : allocation.readable;
  if (!has_bit(mask, context.device.ordinal))
    return false;
  if (allocation.pool && allocation.device) // not the business of cuCtxEnablePeerAccess
    return has_bit(write ? allocation.pool->writable : allocation.pool->readable, context.device.ordinal);
  if (allocation.everywhere || allocation.device == &context.device || allocation.kind == MemoryKind::mapped)
    return true;
  return allocation.device && context.peers.count(allocation.device->ordinal) != 0;
}

bool is_followed(const Allocation &allocation) {
  return !allocation.is_shared && allocation.device &&
         (allocation.kind == MemoryKind::device || allocation.kind == MemoryKind::heap ||
          allocation.kind == MemoryKind::mapped);
}

bool is_followed(uint64_t address) {
  auto allocation = allocations().find(address);
  return allocation && is_followed(*allocation);
}

std::shared_ptr<Allocation> allocate_device(Context &context, uint64_t bytes, MemoryKind kind, unsigned flags,
                                            uint64_t alignment) {
  Device &device = context.device;
  require(bytes <= device.total_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  uint64_t footprint = Heap::footprint(bytes);
  if (footprint > device.total_bytes - device.used_bytes)
    empty_pools(device);
  device.take(footprint);
  uint64_t base = allocate_in(*device.heap, bytes, alignment);
  if (base == 0) {
    device.give_back(footprint);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  return enter_allocation(context, &device, base, bytes, kind, flags);
}

std::shared_ptr<Allocation> allocate_from_pool(Context &context, const std::shared_ptr<MemoryPool> &pool,
                                               uint64_t bytes) {
  Device *device = pool->device;
  require(!device || bytes <= device->total_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  uint64_t footprint = Heap::footprint(bytes);
  if (device && pool->used_bytes + footprint > pool->reserved_bytes &&
      footprint > device->total_bytes - device->used_bytes)
    empty_pools(*device);
  pool->take(footprint);
  uint64_t base = allocate_in(device ? *device->heap : host_heap(), bytes);
  if (base == 0) {
    pool->give_back(footprint);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  auto allocation =
      enter_allocation(context, device, base, bytes, device ? MemoryKind::device : MemoryKind::host, 0);
  allocation->pool = pool;
  return allocation;
}

std::shared_ptr<Allocation> allocate_host(Context &context, uint64_t bytes, unsigned flags) {
  uint64_t base = allocate_in(host_heap(), bytes);
  require(base != 0, CUDA_ERROR_OUT_OF_MEMORY);
  return enter_allocation(context, nullptr, base, bytes, MemoryKind::host, flags);
}

void release(const std::shared_ptr<Allocation> &allocation) {
  if (allocation->kept) {
    auto memory = allocation->kept->shared_from_this();
    if (memory->outstanding())
      memory->issue_free();
    memory->end();
    return;
  }
  allocations().erase(allocation->base);
  switch (allocation->kind) {
  case MemoryKind::device:
  case MemoryKind::managed:
  case MemoryKind::global:
    allocation->device->heap->release(allocation->base);
    if (allocation->pool)
      allocation->pool->give_back(allocation->footprint);
    else
      allocation->device->give_back(allocation->footprint);
    break;
  case MemoryKind::host:
    host_heap().release(allocation->base);
    if (allocation->pool)
      allocation->pool->give_back(allocation->footprint);
    break;
  case MemoryKind::heap:
    munmap(reinterpret_cast<void *>(allocation->base), allocation->footprint);
    break;
  case MemoryKind::foreign:
    munmap(reinterpret_cast<void *>(allocation->mapped_base), allocation->mapped_bytes);
    break;
  case MemoryKind::registered:
  case MemoryKind::mapped:
    break; // the pages are the application's, or virtual_memory.cpp's
  }
}

void require_range(Context &context, uint64_t address, uint64_t bytes, bool write) {
  // A range may run over neighbouring mappings of one address reservation.
  while (bytes > 0) {
    auto allocation = allocations().find(address);
    require(allocation != nullptr && !allocation->freeing, CUDA_ERROR_INVALID_VALUE);
    uint32_t mask = write ? allocation->writable : allocation->readable;
    bool later = allocation->kept != nullptr;
    require(later || has_bit(mask, context.device.ordinal), CUDA_ERROR_INVALID_VALUE);
    uint64_t here = std::min(bytes, allocation->end() - address);
    address += here;
    bytes -= here;
  }
}

} // namespace emulator::driver
