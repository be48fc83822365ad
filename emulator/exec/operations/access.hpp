// How a memory instruction reaches memory: addresses of the lanes, their bounds, and what they cost.
#pragma once

#include "exec/machine/warp.hpp"

namespace emulator {

enum class Pattern : uint8_t {
  contiguous, // lane l at address[0] + l * bytes, for the first `lanes` lanes, which are the active ones
  uniform,    // all active lanes at address[first]
  scattered,
};

struct Access {
  Pattern pattern;
  uint32_t first; // lowest active lane
  uint32_t lanes; // contiguous: how many
  bool checked;   // contiguous and uniform: bounds and alignment are known to be right
};

// Memory a worker has seen an instruction touch.
struct CachedRange {
  uint64_t base = 0;
  uint64_t end = 0;
};

// Says whether [address, address + bytes) may be touched; throws a Fault that names lane and address
// otherwise. `global` tells whether the counters of global memory apply.
void check_access(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes,
                  bool write);

[[noreturn]] void misaligned(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address,
                             uint32_t bytes);

// Adds to the counters of global memory: `addresses` of the lanes in `lanes`, `bytes` each.
void count_global(Warp &warp, const uint64_t *addresses, uint32_t lanes, uint32_t bytes, bool write);
void count_global_range(Warp &warp, uint64_t begin, uint64_t end, uint64_t bytes, bool write);

} // namespace emulator
