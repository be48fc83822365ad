#include "heap.hpp"

#include "error.hpp"
#include "settings.hpp"

#include <cstring>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace emulator::driver {
namespace {

constexpr uint64_t small_limit_bytes = uint64_t{1} << 20;
constexpr uint64_t gap_bytes = allocation_alignment;
constexpr int poison_byte = 0xCD;

// More pages on either side of those that are asked for.
uint64_t margin_bytes() { return settings().lenient ? block_bytes : 0; }

uint64_t map_pages(uint64_t bytes) {
  uint64_t whole = bytes + 2 * margin_bytes();
  uint64_t base = whole < bytes ? 0 : map_aligned(whole, block_bytes, PROT_READ | PROT_WRITE);
  return base == 0 ? 0 : base + margin_bytes();
}

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

uint64_t Heap::allocate_small(uint64_t bytes, uint64_t alignment) {
  uint64_t needed = round_up(bytes, allocation_alignment) + gap_bytes;
  auto take = [&](Block &block) -> uint64_t {
    for (auto &span : block.free) {
      auto [begin, available] = span;
      uint64_t address = round_up(begin, alignment), end = begin + available;
      if (address > end || end - address < needed)
        continue;
      block.free.erase(begin);
      if (address > begin)
        block.free[begin] = address - begin;
      if (end > address + needed)
        block.free[address + needed] = end - address - needed;
      small_[address] = needed;
      return address;
    }
    return 0;
  };
  for (auto &block : blocks_)
    if (uint64_t address = take(block.second))
      return address;
  uint64_t base = map_pages(block_bytes);
  if (base == 0)
    return 0;
  Block &block = blocks_[base];
  block.free[base] = block_bytes;
  return take(block);
}

uint64_t Heap::allocate(uint64_t bytes, uint64_t alignment) {
  uint64_t address = 0;
  if (bytes <= small_limit_bytes) {
    address = allocate_small(bytes, alignment);
    if (address != 0)
      std::memset(reinterpret_cast<void *>(address), settings().poison ? poison_byte : 0, bytes);
    return address;
  }
  uint64_t mapped = round_up(bytes + gap_bytes, block_bytes);
  if (mapped < bytes)
    return 0;
  address = map_pages(mapped);
  if (address == 0)
    return 0;
  large_[address] = mapped;
  if (settings().poison)
    std::memset(reinterpret_cast<void *>(address), poison_byte, bytes);
  return address;
}

Pages Heap::pages_of(uint64_t address) const {
  auto large = large_.find(address);
  uint64_t base = large != large_.end() ? address : std::prev(blocks_.upper_bound(address))->first;
  return {base, base + (large != large_.end() ? large->second : block_bytes)};
}

Pages Heap::pages_around(uint64_t address) const {
  Pages pages = pages_of(address);
  return {pages.base - margin_bytes(), pages.end + margin_bytes()};
}

// The system call: glibc has a function for it since 2.27, and the driver loads into older ones.
int memory_file(const std::string &name) {
  return static_cast<int>(syscall(SYS_memfd_create, name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

SharedPiece Heap::share(uint64_t address, const std::string &name) {
  Pages pages = pages_of(address);
  uint64_t base = pages.base, bytes = pages.end - pages.base;
  if (auto shared = files_.find(base); shared != files_.end())
    return {shared->second, base, bytes};
  int file = memory_file(name);
  bool sized = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
               fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  void *copy = sized ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (copy == MAP_FAILED) {
    if (file >= 0)
      close(file);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  // Pages that hold nothing but zero are the same in a fresh file, and take no memory there.
  constexpr uint64_t page_bytes = 4096;
  static const unsigned char zero[page_bytes] = {};
  for (uint64_t at = 0; at < bytes; at += page_bytes) {
    auto *page = reinterpret_cast<const unsigned char *>(base + at);
    if (std::memcmp(page, zero, page_bytes) != 0)
      std::memcpy(static_cast<unsigned char *>(copy) + at, page, page_bytes);
  }
  munmap(copy, bytes);
  void *placed =
      mmap(reinterpret_cast<void *>(base), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  if (placed == MAP_FAILED) {
    close(file);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  files_[base] = file;
  return {file, base, bytes};
}

void Heap::release(uint64_t address) {
  if (auto large = large_.find(address); large != large_.end()) {
    munmap(reinterpret_cast<void *>(address - margin_bytes()), large->second + 2 * margin_bytes());
    large_.erase(large);
    if (auto shared = files_.find(address); shared != files_.end()) {
      close(shared->second);
      files_.erase(shared);
    }
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
