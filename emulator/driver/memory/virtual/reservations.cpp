#include "reservations.hpp"

#include "core/heap.hpp"
#include "entry/entry.hpp"
#include "memory/allocations.hpp"

#include <algorithm>
#include <map>
#include <sys/mman.h>

using namespace emulator::driver;

namespace {

// Reserved ranges, by base. Guarded by the driver's lock.
std::map<uint64_t, uint64_t> &reservations() {
  static auto *only = new std::map<uint64_t, uint64_t>;
  return *only;
}

void *at(uint64_t address) { return reinterpret_cast<void *>(address); }

// Where NVIDIA's driver reserves addresses for itself when it starts, and those that it gives out.
constexpr uint64_t own_begin = 0x2'0000'0000, own_given = 0x3'0200'0000, own_end = 0x6'0020'0000;

bool is_own(uint64_t address, uint64_t bytes) {
  return settings().own_range && address >= own_begin && address < own_end && bytes <= own_end - address;
}

bool is_reserved_in_part(uint64_t address, uint64_t bytes) {
  auto next = reservations().lower_bound(address + bytes);
  return next != reservations().begin() && std::prev(next)->first + std::prev(next)->second > address;
}

// The lowest free addresses of the own range. 0 when there are none, or there is no such range.
uint64_t reserve_own(uint64_t bytes, uint64_t alignment) {
  uint64_t base = round_up(own_given, alignment);
  for (const auto &[start, length] : reservations())
    if (start < base + bytes && start + length > base)
      base = round_up(start + length, alignment);
  return is_own(base, bytes) ? base : 0;
}

// The address asked for if it is free, since that is all a hint can promise. 0 when it is not.
uint64_t reserve_at(uint64_t hint, uint64_t bytes, uint64_t alignment) {
  if (hint == 0 || hint % alignment != 0 || hint + bytes < hint)
    return 0;
  if (is_own(hint, bytes))
    return is_reserved_in_part(hint, bytes) ? 0 : hint;
  void *mapped = mmap(at(hint), bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == MAP_FAILED)
    return 0;
  if (mapped != at(hint)) { // a kernel older than 4.17 takes the flag for a hint
    munmap(mapped, bytes);
    return 0;
  }
  return hint;
}

} // namespace

namespace emulator::driver {

bool claim_own_range() {
  if (!settings().own_range)
    return true;
  void *mapped = mmap(at(own_begin), own_end - own_begin, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == at(own_begin))
    return true;
  if (mapped != MAP_FAILED)
    munmap(mapped, own_end - own_begin);
  return false;
}

std::pair<uint64_t, uint64_t> reservation_of(uint64_t address) {
  auto above = reservations().upper_bound(address);
  if (above == reservations().begin())
    return {0, 0};
  std::pair<uint64_t, uint64_t> found = *std::prev(above);
  return address - found.first < found.second ? found : std::pair<uint64_t, uint64_t>{0, 0};
}

bool is_reserved(uint64_t address, uint64_t bytes) {
  auto [base, length] = reservation_of(address);
  return length > 0 && bytes <= length - (address - base);
}

} // namespace emulator::driver

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags) {
  return enter("cuMemAddressReserve", Needs::initialised, [&](Call &) {
    require(ptr != nullptr && size > 0 && size % block_bytes == 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require((alignment & (alignment - 1)) == 0, CUDA_ERROR_INVALID_VALUE);
    uint64_t aligned = std::max<uint64_t>(alignment, block_bytes);
    uint64_t base = reserve_at(addr, size, aligned);
    if (base == 0)
      base = reserve_own(size, aligned);
    if (base == 0)
      base = map_aligned(size, aligned, PROT_NONE);
    require(base != 0, CUDA_ERROR_OUT_OF_MEMORY);
    reservations()[base] = size;
    *ptr = base;
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return enter("cuMemAddressFree", Needs::initialised, [&](Call &) {
    auto found = reservations().find(ptr);
    require(found != reservations().end() && found->second == size, CUDA_ERROR_INVALID_VALUE);
    require(!allocations().overlaps(ptr, size), CUDA_ERROR_INVALID_VALUE); // still mapped
    if (!is_own(ptr, size))
      munmap(at(ptr), size);
    reservations().erase(found);
  });
}
