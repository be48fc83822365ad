#include "exec/control/addresses.hpp"

#include "exec/block/cluster.hpp"

namespace emulator::control {

namespace {
uint64_t window_of(const Warp &w, const Instruction *i, uint32_t lane) {
  if (i->space == ptx::Space::shared)
    return w.shared_base;
  return i->space == ptx::Space::local ? w.local_base + lane * w.local_stride : 0;
}
} // namespace

const Instruction *local_address(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t window = i->wide_address ? w.local_base + lane * w.local_stride : 0;
    w.row<uint64_t>(i->destination)[lane] = window + w.local_offset + static_cast<uint64_t>(i->immediate);
  }
  return i + 1;
}

const Instruction *to_generic(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    w.row<uint64_t>(i->destination)[lane] = w.row<uint64_t>(i->a)[lane] + window_of(w, i, lane);
  }
  return i + 1;
}

const Instruction *from_generic(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    w.row<uint64_t>(i->destination)[lane] = w.row<uint64_t>(i->a)[lane] - window_of(w, i, lane);
  }
  return i + 1;
}

const Instruction *is_space(Warp &w, const Instruction *i) {
  const Launch &launch = *w.launch;
  uint64_t parameters = reinterpret_cast<uint64_t>(launch.parameters);
  bool of_cluster = i->immediate != 0;
  uint32_t bits = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t address = w.row<uint64_t>(i->a)[lane];
    bool own = address - w.shared_base < w.shared_bytes;
    bool shared = own || w.block->cluster->block_at(address, 1);
    bool local = address - w.local_base < w.local_stride * lanes_per_warp;
    bool parameter = address - parameters < launch.program->info.parameter_bytes;
    bool constant = false;
    for (const auto &[begin, bytes] : launch.program->constant_ranges)
      constant |= address - begin < bytes;
    bool answer = i->space == ptx::Space::shared      ? (of_cluster ? shared : own)
                  : i->space == ptx::Space::local     ? local
                  : i->space == ptx::Space::parameter ? parameter
                  : i->space == ptx::Space::constant  ? constant
                                                      : !shared && !local && !parameter && !constant;
    bits |= static_cast<uint32_t>(answer) << lane;
  }
  uint32_t &p = w.predicate(i->destination);
  p = (p & ~w.active) | bits;
  return i + 1;
}

const Instruction *shared_address(Warp &w, const Instruction *i) {
  const Cluster &cluster = *w.block->cluster;
  uint64_t *to = w.row<uint64_t>(i->destination);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t offset = static_cast<uint64_t>(i->immediate);
    // Addresses of 32 bits wrap.
    uint64_t address =
        i->wide_address ? w.row<uint64_t>(i->a)[lane] + offset
                        : static_cast<uint32_t>(w.row<uint32_t>(i->a)[lane] + static_cast<uint32_t>(offset));
    to[lane] = cluster.generic_address(*w.block, address);
  }
  return i + 1;
}

const Instruction *map_address(Warp &w, const Instruction *i) {
  const Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint32_t rank = w.row<uint32_t>(i->b)[lane];
    if (rank >= cluster.blocks.size())
      fail(w, i, LaunchStatus::illegal_instruction,
           "mapa to block " + std::to_string(rank) + " of a cluster of " +
               std::to_string(cluster.blocks.size()),
           lane);
    uint64_t address = i->wide_address ? w.row<uint64_t>(i->a)[lane] : w.row<uint32_t>(i->a)[lane];
    uint64_t result;
    if (i->space == ptx::Space::shared) {
      result = shared_address_of(rank, static_cast<uint32_t>(address));
    } else {
      const Block *from = cluster.block_at(address, 1);
      if (!from)
        fail(w, i, LaunchStatus::illegal_address, "mapa of an address that is not in shared memory", lane);
      result = address - from->warps[0].shared_base + cluster.blocks[rank]->warps[0].shared_base;
    }
    if (i->wide_address)
      w.row<uint64_t>(i->destination)[lane] = result;
    else
      w.row<uint32_t>(i->destination)[lane] = static_cast<uint32_t>(result);
  }
  return i + 1;
}

const Instruction *first_of_pair(Warp &w, const Instruction *i) {
  const Cluster &cluster = *w.block->cluster;
  uint32_t rank = static_cast<uint32_t>(cluster.rank_of(*w.block)) & ~1u;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint32_t address = w.row<uint32_t>(i->a)[lane];
    bool own = address >> rank_shift == 0 && cluster.blocks.size() > 1;
    uint32_t mask = static_cast<uint32_t>(i->immediate);
    w.row<uint32_t>(i->destination)[lane] = (own ? shared_address_of(rank, address) : address) & mask;
  }
  return i + 1;
}

const Instruction *rank_of_address(Warp &w, const Instruction *i) {
  const Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t address = i->wide_address ? w.row<uint64_t>(i->a)[lane] : w.row<uint32_t>(i->a)[lane];
    if (i->space == ptx::Space::shared)
      address = cluster.generic_address(*w.block, address);
    const Block *holder = cluster.block_at(address, 1);
    uint32_t rank = 0;
    while (holder && rank < cluster.blocks.size() && cluster.blocks[rank].get() != holder)
      ++rank;
    if (!holder)
      fail(w, i, LaunchStatus::illegal_address, "getctarank of an address that is not in shared memory",
           lane);
    w.row<uint32_t>(i->destination)[lane] = rank;
  }
  return i + 1;
}

} // namespace emulator::control
