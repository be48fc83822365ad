#include "allocations.hpp"

#include "device/context.hpp"
#include "device/device.hpp"
#include "graph/memory_nodes.hpp"
#include "heap.hpp"
#include "pool.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace emulator::driver {
namespace {

constexpr uint64_t default_device_heap_bytes = uint64_t{8} << 20; // CU_LIMIT_MALLOC_HEAP_SIZE's default
constexpr size_t most_freed_remembered = 1024;
constexpr uint64_t far_bytes = uint64_t{1} << 30; // beyond this, naming a neighbour says nothing
constexpr uint64_t near_bytes = uint64_t{64}
                                << 10; // up to this, a neighbour is more likely meant than the host

Heap &host_heap() {
  static Heap *only = new Heap;
  return *only;
}

bool has_bit(uint32_t mask, int ordinal) { return (mask >> ordinal) & 1u; }

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string named(uint64_t base, uint64_t bytes) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(base));
  return "the " + grouped(bytes) + "-byte allocation at " + text;
}

std::string named(const Stretch &stretch) { return named(stretch.base, stretch.bytes); }

// Of stretches that do not overlap, by base: the one that holds `address`; {0, 0}: none.
Stretch holder(const std::map<uint64_t, uint64_t> &stretches, uint64_t address) {
  auto above = stretches.upper_bound(address);
  if (above == stretches.begin())
    return {};
  auto [base, bytes] = *std::prev(above);
  return address - base < bytes ? Stretch{base, bytes} : Stretch{};
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

void Allocations::insert(std::shared_ptr<Allocation> allocation) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  if (allocation->identifier == 0)
    allocation->identifier = driver().next_identifier++;
  by_base_[allocation->base] = std::move(allocation);
}

void Allocations::erase(uint64_t base) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  auto found = by_base_.find(base);
  if (found == by_base_.end())
    return;
  remember_freed(base, found->second->bytes);
  by_base_.erase(found);
}

void Allocations::remember_freed(uint64_t base, uint64_t bytes) {
  freed_.emplace_back(base, bytes);
  if (freed_.size() > most_freed_remembered)
    freed_.pop_front();
}

void Allocations::confine(Stretch stretch, const std::vector<Stretch> &pieces) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  std::map<uint64_t, uint64_t> wanted;
  for (const Stretch &piece : pieces)
    wanted[piece.base] = piece.bytes;
  for (auto known = pieces_.lower_bound(stretch.base);
       known != pieces_.end() && known->first - stretch.base < stretch.bytes; known = pieces_.erase(known))
    if (wanted.find(known->first) == wanted.end())
      remember_freed(known->first, known->second);
  pieces_.insert(wanted.begin(), wanted.end());
  if (!is_confined(stretch.base)) // else it is a part of what is confined
    confined_[stretch.base] = stretch.bytes;
}

bool Allocations::takes_away(Stretch stretch, const std::vector<Stretch> &pieces) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto known = pieces_.lower_bound(stretch.base);
  auto piece = pieces.begin();
  for (; known != pieces_.end() && known->first - stretch.base < stretch.bytes; ++known) {
    while (piece != pieces.end() && piece->base < known->first)
      ++piece;
    if (piece == pieces.end() || piece->base != known->first || piece->bytes < known->second)
      return true;
  }
  return !is_confined(stretch.base);
}

bool Allocations::is_confined(uint64_t address) const { return holder(confined_, address).bytes != 0; }

Stretch Allocations::for_kernels(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  if (is_confined(address))
    return holder(pieces_, address);
  auto above = by_base_.upper_bound(address);
  if (above == by_base_.begin() || address >= std::prev(above)->second->end())
    return {};
  return {std::prev(above)->second->base, std::prev(above)->second->bytes};
}

std::pair<uint64_t, uint64_t> Allocations::freed_at(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed)
    if (address - freed->first < freed->second)
      return *freed;
  return {0, 0};
}

std::shared_ptr<Allocation> Allocations::find(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto above = by_base_.upper_bound(address);
  if (above == by_base_.begin())
    return nullptr;
  const auto &candidate = std::prev(above)->second;
  return address < candidate->end() ? candidate : nullptr;
}

bool Allocations::covers(uint64_t base, uint64_t bytes) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  uint64_t end = base + bytes;
  for (auto above = by_base_.upper_bound(base); base < end; ++above) {
    if (above == by_base_.begin() || std::prev(above)->second->end() <= base ||
        std::prev(above)->second->base > base)
      return false;
    if (std::prev(above)->second->graph && !std::prev(above)->second->writable)
      return false; // the graph has not allocated it yet, or has freed it
    base = std::prev(above)->second->end();
    if (above == by_base_.end())
      break;
  }
  return base >= end;
}

bool Allocations::overlaps(uint64_t base, uint64_t bytes) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto above = by_base_.lower_bound(base);
  if (above != by_base_.end() && above->first < base + bytes)
    return true;
  return above != by_base_.begin() && std::prev(above)->second->end() > base;
}

std::pair<Stretch, Stretch> Allocations::neighbours(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  Stretch below, above;
  auto allocation = by_base_.upper_bound(address);
  for (auto before = allocation; before != by_base_.begin() && below.bytes == 0;)
    if (--before; !is_confined(before->first))
      below = {before->first, before->second->bytes};
  for (; allocation != by_base_.end() && above.bytes == 0; ++allocation)
    if (!is_confined(allocation->first))
      above = {allocation->first, allocation->second->bytes};
  auto piece = pieces_.upper_bound(address);
  if (piece != pieces_.end() && (above.bytes == 0 || piece->first < above.base))
    above = {piece->first, piece->second};
  if (piece != pieces_.begin() && std::prev(piece)->first >= below.base)
    below = {std::prev(piece)->first, std::prev(piece)->second};
  return {below, above};
}

std::vector<std::shared_ptr<Allocation>> Allocations::all() const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  std::vector<std::shared_ptr<Allocation>> result;
  for (const auto &item : by_base_)
    result.push_back(item.second);
  return result;
}

// What lies around the allocations of the device's own memory, where such accesses pass.
Range DeviceMemory::find_around(uint64_t address) const {
  auto [below, above] = driver().allocations->neighbours(address);
  for (const Stretch &stretch : {below, above})
    if (auto neighbour = driver().allocations->find(stretch.base);
        neighbour && neighbour->pages_base <= address && address < neighbour->pages_end &&
        may_touch(context_, *neighbour, true))
      return {neighbour->pages_base, neighbour->pages_end, true};
  return {};
}

Range DeviceMemory::find(uint64_t address) const {
  if (settings().lenient)
    if (Range around = find_around(address); around.end != 0)
      return around;
  auto allocation = driver().allocations->find(address);
  if (!allocation || !may_touch(context_, *allocation, false))
    return {};
  Stretch here = settings().lenient ? Stretch{allocation->base, allocation->bytes}
                                    : driver().allocations->for_kernels(address);
  return {here.base, here.base + here.bytes, may_touch(context_, *allocation, true)};
}

std::string DeviceMemory::describe(uint64_t address) const {
  auto [below, above] = driver().allocations->neighbours(address);
  if (below.bytes != 0 && address - below.base < below.bytes) {
    auto allocation = driver().allocations->find(address);
    bool allowed = allocation && may_touch(context_, *allocation, false);
    return "inside " + named(below) + (allowed ? "" : ", which this device may not touch");
  }
  if (address == 0)
    return "a null pointer";
  if (auto [base, bytes] = driver().allocations->freed_at(address); bytes != 0)
    return grouped(address - base) + " bytes into " + named(base, bytes) + ", which was freed";
  uint64_t after = below.bytes != 0 ? address - below.base - below.bytes : ~uint64_t{0};
  uint64_t before = above.bytes != 0 ? above.base - address : ~uint64_t{0};
  const Stretch &nearest = after <= before ? below : above;
  auto allocation = driver().allocations->find(nearest.base);
  bool is_beside = driver().allocations->find(address) != nullptr; // a part of memory that is confined
  bool on_its_pages =
      is_beside || (allocation && allocation->pages_base <= address && address < allocation->pages_end);
  if (std::min(after, before) > near_bytes && !on_its_pages && is_mapped(address, 1))
    return "memory of the host that no device can reach (cuMemHostRegister, or a copy)";
  if (std::min(after, before) > far_bytes)
    return "far from every allocation";
  std::string words = after <= before ? grouped(after) + " bytes past the end of " + named(nearest)
                                      : grouped(before) + " bytes before " + named(nearest);
  if (is_beside ||
      (allocation && allocation->pages_end != 0 && address + block_bytes >= allocation->pages_base &&
       address < allocation->pages_end + block_bytes))
    words += "; REPLAY_EMULATOR_LENIENT=1 lets it pass, as a GPU does where its pages reach";
  return words;
}

uint64_t DeviceMemory::device_malloc(uint64_t bytes) {
  std::lock_guard<std::mutex> guard(heap_mutex_);
  auto limit = context_.limits.find(CU_LIMIT_MALLOC_HEAP_SIZE);
  uint64_t capacity = limit == context_.limits.end() ? default_device_heap_bytes : limit->second;
  if (bytes == 0 || bytes > capacity || heap_bytes_ + bytes > capacity)
    return 0;
  // Each piece is a mapping of its own: rare, and an overrun is seen at once.
  uint64_t mapped = round_up(bytes + allocation_alignment, 4096);
  uint64_t base = map_aligned(mapped, 4096, PROT_READ | PROT_WRITE);
  if (base == 0)
    return 0;
  auto allocation = std::make_shared<Allocation>();
  allocation->base = base;
  allocation->bytes = bytes;
  allocation->kind = MemoryKind::heap;
  allocation->device = &context_.device;
  allocation->context = &context_;
  allocation->footprint = mapped;
  allocation->identifier = ~uint64_t{0}; // not a buffer the host can ask about
  driver().allocations->insert(allocation);
  heap_bytes_ += bytes;
  return base;
}

void DeviceMemory::device_free(uint64_t address) {
  std::lock_guard<std::mutex> guard(heap_mutex_);
  auto allocation = driver().allocations->find(address);
  if (!allocation || allocation->base != address || allocation->kind != MemoryKind::heap)
    return;
  // The range leaves the table; its pages stay until the context ends, because executor threads cache ranges.
  heap_bytes_ -= allocation->bytes;
  driver().allocations->erase(address);
  freed_.push_back(std::move(allocation));
}

DeviceMemory::~DeviceMemory() {
  for (const auto &piece : freed_)
    munmap(reinterpret_cast<void *>(piece->base), piece->footprint);
}

namespace {

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
  driver().allocations->insert(allocation);
  return allocation;
}

} // namespace

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
  if (allocation->graph) { // the graph keeps the address
    auto memory = allocation->graph->shared_from_this();
    if (memory->outstanding())
      memory->issue_free();
    memory->end();
    return;
  }
  driver().allocations->erase(allocation->base);
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
    auto allocation = driver().allocations->find(address);
    require(allocation != nullptr && !allocation->freeing, CUDA_ERROR_INVALID_VALUE);
    uint32_t mask = write ? allocation->writable : allocation->readable;
    bool later = allocation->graph != nullptr;
    require(later || has_bit(mask, context.device.ordinal), CUDA_ERROR_INVALID_VALUE);
    uint64_t here = std::min(bytes, allocation->end() - address);
    address += here;
    bytes -= here;
  }
}

} // namespace emulator::driver
