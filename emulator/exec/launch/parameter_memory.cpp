#include "exec/launch/parameter_memory.hpp"

#include <cstring>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <vector>

namespace emulator {

namespace {

// Pieces that no launch uses. Never destroyed: launches may come during exit.
struct Spare {
  std::mutex lock;
  std::vector<uint8_t *> pieces;
};

Spare &spare() {
  static Spare *only = new Spare;
  return *only;
}

void *map_at(uint64_t address, int flags) {
  return mmap(reinterpret_cast<void *>(address), ParameterMemory::largest_bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

// Below 4 GiB where there is room, else anywhere: only kernels that use addresses of 32 bits see the
// difference.
uint8_t *map_piece() {
  constexpr uint64_t first = uint64_t{256} << 20, end = uint64_t{2} << 30, step = uint64_t{1} << 20;
  for (uint64_t address = first; address < end; address += step) {
    void *piece = map_at(address, MAP_FIXED_NOREPLACE);
    if (piece == MAP_FAILED)
      continue;
    if (reinterpret_cast<uint64_t>(piece) == address)
      return static_cast<uint8_t *>(piece);
    munmap(piece, ParameterMemory::largest_bytes); // a kernel from before Linux 4.17 takes it for a hint
  }
  void *piece = map_at(0, 0);
  if (piece == MAP_FAILED)
    throw std::bad_alloc();
  return static_cast<uint8_t *>(piece);
}

} // namespace

ParameterMemory::ParameterMemory(size_t bytes) : data_(nullptr) {
  {
    std::lock_guard<std::mutex> hold(spare().lock);
    if (!spare().pieces.empty()) {
      data_ = spare().pieces.back();
      spare().pieces.pop_back();
    }
  }
  if (data_ == nullptr)
    data_ = map_piece();
  std::memset(data_, 0, bytes);
}

ParameterMemory::~ParameterMemory() {
  std::lock_guard<std::mutex> hold(spare().lock);
  spare().pieces.push_back(data_);
}

} // namespace emulator
