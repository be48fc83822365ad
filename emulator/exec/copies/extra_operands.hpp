#pragma once

#include <cstdint>
#include <vector>

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

struct Delivery {
  uint64_t to = 0, mbarrier = 0;
};

inline void count_bulk(BulkCounters &of, uint64_t bytes) {
  of.requests += 1;
  of.bytes += bytes;
}

// `.multicast::cluster` with its mask at `place`: to the same place in each block of the mask, and to the
// mbarrier at the same place there. Without a mask, to `to` alone. pairs: to the mbarrier of the block of the
// pair that has the same parity as the one that is named (.cta_group::2).
class Deliveries {
public:
  Deliveries(Warp &w, const Instruction *i, uint32_t place, uint32_t lane, uint64_t to, uint64_t mbarrier,
             bool pairs = false) {
    if (!has(w, i, place)) {
      add({to, mbarrier});
      return;
    }
    const Cluster &cluster = *w.block->cluster;
    uint32_t mask = operand<uint16_t>(w, i, place, lane);
    if (mask >> cluster.blocks.size())
      fail(w, i, LaunchStatus::illegal_instruction, "a multicast to blocks that the cluster does not have",
           lane);
    const Block *holder = cluster.block_at(to, 1), *signalled = cluster.block_at(mbarrier, 8);
    for (uint32_t rank = 0; rank < cluster.blocks.size(); ++rank) {
      uint64_t base = cluster.blocks[rank]->warps[0].shared_base, signalled_base = base;
      size_t leader = pairs && signalled ? (rank & ~1u) | (cluster.rank_of(*signalled) & 1) : rank;
      if (leader < cluster.blocks.size())
        signalled_base = cluster.blocks[leader]->warps[0].shared_base;
      if (mask >> rank & 1)
        add({holder ? to - holder->warps[0].shared_base + base : to,
             signalled ? mbarrier - signalled->warps[0].shared_base + signalled_base : mbarrier});
    }
  }
  const Delivery *begin() const { return each_; }
  const Delivery *end() const { return each_ + count_; }
  std::vector<uint64_t> signals() const {
    std::vector<uint64_t> result;
    for (const Delivery &one : *this)
      if (one.mbarrier)
        result.push_back(one.mbarrier);
    return result;
  }

private:
  void add(Delivery one) { each_[count_++] = one; }
  Delivery each_[16]; // blocks that a mask of 16 bits names
  uint32_t count_ = 0;
};

} // namespace emulator
