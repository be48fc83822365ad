#pragma once

#include <cstdint>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"

// Operands of instructions that have more of them than fields: their rows are in the program's list of
// extras, and one that the instruction does without is `no_offset`.
namespace emulator {

inline bool has(const Warp &w, const Instruction *i, uint32_t place) {
  return w.program->extra[i->extra + place] != no_offset;
}

template <typename T> T operand(Warp &w, const Instruction *i, uint32_t place, uint32_t lane) {
  return w.row<T>(w.program->extra[i->extra + place])[lane];
}

// `.multicast::cluster` with its mask at `place`: to the same place in each block of the mask, and to the
// mbarrier at the same place there. Without a mask, to `to` alone. deliver(destination, mbarrier).
template <typename Deliver>
void deliver_to_blocks(Warp &w, const Instruction *i, uint32_t place, uint32_t lane, uint64_t to,
                       uint64_t mbarrier, Deliver deliver) {
  if (!has(w, i, place)) {
    deliver(to, mbarrier);
    return;
  }
  const Cluster &cluster = *w.block->cluster;
  uint32_t mask = operand<uint16_t>(w, i, place, lane);
  if (mask >> cluster.blocks.size())
    fail(w, i, LaunchStatus::illegal_instruction, "a multicast to blocks that the cluster does not have",
         lane);
  const Block *holder = cluster.block_at(to, 1), *signalled = cluster.block_at(mbarrier, 8);
  for (uint32_t rank = 0; rank < cluster.blocks.size(); ++rank) {
    uint64_t base = cluster.blocks[rank]->warps[0].shared_base;
    if (mask >> rank & 1)
      deliver(holder ? to - holder->warps[0].shared_base + base : to,
              signalled ? mbarrier - signalled->warps[0].shared_base + base : mbarrier);
  }
}

} // namespace emulator
