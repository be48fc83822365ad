#include "heap.hpp"

#include "core/settings.hpp"

#include <cstring>
#include <sys/mman.h>

namespace emulator::driver {
namespace {

constexpr uint64_t small_limit_bytes = uint64_t{1} << 20;
constexpr uint64_t gap_bytes = allocation_alignment;
constexpr int poison_byte = 0xCD;

} // namespace

uint64_t map_aligned(uint64_t bytes, uint64_t alignment, int protection) {
  uint64_t wanted = bytes + alignment;
  if (wanted < bytes)
    return 0;
  void *mapped = mmap(nullptr, wanted, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return 0;
  uint64_t start = reinterpret_cast<uint64_t>(mapped);
  uint64_t base = round_up(start, alignment);
  if (base > start)
    munmap(mapped, base - start);
  if (uint64_t tail = start + wanted - (base + bytes))
    munmap(reinterpret_cast<void *>(base + bytes), tail);
  return base;
}

uint64_t Heap::footprint(uint64_t bytes) {
  return bytes <= small_limit_bytes ? round_up(bytes, allocation_alignment) : round_up(bytes, block_bytes);
}

uint64_t Heap::allocate_small(uint64_t bytes) {
  uint64_t needed = round_up(bytes, allocation_alignment) + gap_bytes;
  auto take = [&](Block &block) -> uint64_t {
    for (auto &span : block.free) {
      auto [address, available] = span;
      if (available < needed)
        continue;
      block.free.erase(address);
      if (available > needed)
        block.free[address + needed] = available - needed;
      small_[address] = needed;
      return address;
    }
    return 0;
  };
  for (auto &block : blocks_)
    if (uint64_t address = take(block.second))
      return address;
  uint64_t base = map_aligned(block_bytes, block_bytes, PROT_READ | PROT_WRITE);
  if (base == 0)
    return 0;
  Block &block = blocks_[base];
  block.free[base] = block_bytes;
  return take(block);
}

uint64_t Heap::allocate(uint64_t bytes) {
  uint64_t address = 0;
  if (bytes <= small_limit_bytes) {
    address = allocate_small(bytes);
    if (address != 0)
      std::memset(reinterpret_cast<void *>(address), settings().poison ? poison_byte : 0, bytes);
    return address;
  }
  uint64_t mapped = round_up(bytes + gap_bytes, block_bytes);
  if (mapped < bytes)
    return 0;
  address = map_aligned(mapped, block_bytes, PROT_READ | PROT_WRITE);
  if (address == 0)
    return 0;
  large_[address] = mapped;
  if (settings().poison)
    std::memset(reinterpret_cast<void *>(address), poison_byte, bytes);
  return address;
}

void Heap::release(uint64_t address) {
  if (auto large = large_.find(address); large != large_.end()) {
    munmap(reinterpret_cast<void *>(address), large->second);
    large_.erase(large);
    return;
  }
  auto small = small_.find(address);
  if (small == small_.end())
    return;
  uint64_t bytes = small->second;
  small_.erase(small);
  auto owner = std::prev(blocks_.upper_bound(address));
  auto &free = owner->second.free;
  auto after = free.lower_bound(address);
  if (after != free.end() && address + bytes == after->first) {
    bytes += after->second;
    after = free.erase(after);
  }
  if (after != free.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free[address] = bytes;
}

} // namespace emulator::driver
