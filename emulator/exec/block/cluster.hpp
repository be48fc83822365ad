// A thread-block cluster: blocks that are there at the same time, reach each other's shared memory and wait
// for each other. A launch without clusters has clusters of one block.
#pragma once

#include "exec/block/block.hpp"

namespace emulator {

struct Cluster {
  Cluster();
  ~Cluster();

  const Launch *launch = nullptr;
  std::vector<std::unique_ptr<Block>> blocks; // by %cluster_ctarank
  uint64_t index = 0;                         // linear, in the grid of clusters
  std::unique_ptr<PendingOperations> pending; // nullptr: nothing is deferred

  // Takes the memory it needs; once, then any number of clusters run in it, one after the other.
  void prepare(const Launch &of, Worker &by);
  void start(uint64_t linear_index);
  // True when all threads have exited, false when the budget of some warp, or of all together, was.
  bool run(int64_t instructions_per_warp);

  // barrier.cluster: the active lanes of a warp arrive; threads that exit no longer count.
  void arrive(Warp &warp);
  void threads_left();
  // The phase of the mbarrier at this address has ended: whoever waits for it looks again.
  void phase_completed(uint64_t mbarrier);
  // What griddepcontrol.wait waits for is there.
  void prerequisite_ran();

  // A generic address for one of .shared::cluster; see `rank_shift`.
  uint64_t generic_address(const Block &own, uint64_t shared_address) const;
  size_t rank_of(const Block &block) const;
  // The other block of a pair of `tcgen05`: ranks that differ in the last bit. nullptr: there is none.
  Block *peer_of(const Block &block) const;
  // The block whose shared memory holds [address, address + bytes), or nullptr.
  const Block *block_at(uint64_t address, uint64_t bytes) const;

  // fence.proxy.async: asynchronous operations see shared memory as it is now.
  void fence_shared();
  // What to add to [address, address + bytes) for an asynchronous operation that is issued now: it reads what
  // was fenced, if something else is there. 0 where nothing is deferred.
  uint64_t distance_to_fenced(uint64_t address, uint64_t bytes) const;
  uint64_t distance_to_fenced(const Block &block) const { // of all its shared memory
    return distance_to_fenced(block.warps[0].shared_base, block.warps[0].shared_bytes);
  }
  // From an address in shared memory to where asynchronous operations see it; 0 where nothing is deferred.
  uint64_t fenced_distance(uint64_t address) const;
  // An asynchronous operation has written there.
  void written_asynchronously(uint64_t address, uint64_t bytes);

  [[noreturn]] void report_timeout();

  // Columns of tensor memory have become free.
  void columns_released(Block &block);

private:
  // Somebody got further: what waits for an mbarrier has not waited in vain.
  void progressed() { vain_wakes_ = 0; }
  bool wake_in_vain();
  bool awaits_prerequisite() const;
  bool finish_awaited();
  [[noreturn]] void report_deadlock();

  uint32_t arrived_ = 0; // threads at barrier.cluster
  uint32_t vain_wakes_ = 0;
};

// In .shared::cluster, an address below 2^24 is in the block's own shared memory; one with `other_block`
// names the rank of a block in the bits from 24 on. mapa makes such addresses, and so does peer_mask:
// programs clear the lowest bit of the rank to name the first block of a pair.
constexpr uint32_t rank_shift = 24, other_block = 1 << 28, peer_mask = ~(uint32_t{1} << rank_shift);
constexpr uint32_t shared_address_of(uint32_t rank, uint32_t offset) {
  return other_block | rank << rank_shift | (offset & ((1 << rank_shift) - 1));
}

// %ctaid of the first block of a cluster.
void cluster_position(const LaunchRequest &request, uint64_t cluster, uint32_t (&position)[3]);

} // namespace emulator
