// Whether lanes may touch the memory they name, and what it costs.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// Says whether [address, address + bytes) may be touched; throws a Fault that names lane and address
// otherwise.
void check_access(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes,
                  bool write);

[[noreturn]] void misaligned(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address,
                             uint32_t bytes);

// The same for every active lane of `reach`, or of `addresses` when the lanes are far apart: what the fast
// checks could not answer.
void check_lanes(Warp &warp, const Instruction *i, const Reach &reach, const uint64_t *addresses,
                 uint32_t bytes, bool write);

// Counts one request to global memory: `addresses` of the lanes in `lanes`, `bytes` each; or one range of any
// length.
void count_global(Warp &warp, const uint64_t *addresses, uint32_t lanes, uint32_t bytes, AccessKind kind);
void count_global_range(Warp &warp, uint64_t begin, uint64_t end, uint64_t bytes, bool write);
// One request of any number of accesses of `bytes` each, none of which crosses a sector. Sorts `addresses`.
void count_global_accesses(Warp &warp, std::vector<uint64_t> &addresses, uint32_t bytes, AccessKind kind);
inline void count_global(Warp &warp, const uint64_t *addresses, uint32_t lanes, uint32_t bytes, bool write) {
  count_global(warp, addresses, lanes, bytes, write ? AccessKind::store : AccessKind::load);
}

// Whether the address is in the shared memory of another block of the cluster.
bool is_remote_shared(const Warp &warp, uint64_t address);

} // namespace emulator
