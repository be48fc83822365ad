// Where device and pinned host memory come from: address ranges chosen by the kernel, cut like the real
// driver cuts them (512-byte alignment, 2 MiB blocks), with a gap after each so that an access past the end
// is seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace emulator::driver {

constexpr uint64_t allocation_alignment = 512;
constexpr uint64_t block_bytes = uint64_t{2} << 20; // also the granularity of virtual memory management

constexpr uint64_t round_up(uint64_t value, uint64_t granule) {
  return (value + granule - 1) / granule * granule;
}

// Maps `bytes` (a multiple of the page size) at an address aligned to `alignment`. 0 when there is no room.
uint64_t map_aligned(uint64_t bytes, uint64_t alignment, int protection);

// A file in memory that can be sealed; -1 when there is none to have.
int memory_file(const std::string &name);

// A piece of the heap that other processes can map.
struct SharedPiece {
  int file;      // a sealed memory file, the heap's own
  uint64_t base; // where the file's first byte lies in this process
  uint64_t bytes;
};

struct Pages {
  uint64_t base;
  uint64_t end;
};

// Not thread-safe: used under the driver's lock.
class Heap {
public:
  // Filled with zero, or 0xCD with REPLAY_EMULATOR_POISON. 0 when there is no room. alignment: a power of two
  // from allocation_alignment to block_bytes.
  uint64_t allocate(uint64_t bytes, uint64_t alignment = allocation_alignment);
  void release(uint64_t address);
  // Moves the pages around an allocation into a memory file, at the same addresses: those of the allocation
  // itself, or of the whole block it was cut from. No other thread may touch them meanwhile. Throws
  // CUDA_ERROR_OUT_OF_MEMORY.
  SharedPiece share(uint64_t address, const std::string &name);
  // The pages that are there around an allocation: those it lies in, and with REPLAY_EMULATOR_LENIENT the
  // next ones on either side.
  Pages pages_around(uint64_t address) const;
  // What an allocation takes from the device's memory.
  static uint64_t footprint(uint64_t bytes);

private:
  struct Block {
    std::map<uint64_t, uint64_t> free; // address -> bytes, neighbours merged
  };
  uint64_t allocate_small(uint64_t bytes, uint64_t alignment);
  Pages pages_of(uint64_t address) const;

  std::map<uint64_t, Block> blocks_;   // small allocations, by base
  std::map<uint64_t, uint64_t> small_; // address -> bytes with the gap
  std::map<uint64_t, uint64_t> large_; // address -> bytes mapped
  std::map<uint64_t, int> files_;      // of shared pieces, by base
};

} // namespace emulator::driver
