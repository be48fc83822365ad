// What a launch checks of one block (LaunchRequest::checks). Handlers tell it what happens.
#pragma once

#include <memory>

#include "exec/check/between/global_races.hpp"
#include "exec/check/undefined/block_shadow.hpp"
#include "exec/check/within/race.hpp"

namespace emulator {

class BlockChecks {
public:
  // nullptr when the launch checks nothing that can be checked of it.
  static std::unique_ptr<BlockChecks> create(const Launch &launch, std::vector<Warp> &warps,
                                             GlobalRaces *between);

  void start(uint64_t block);
  // The active lanes go on together from an operation of lanes; masks: what each names.
  void join(Warp &warp, const Instruction *i, const uint32_t *masks);
  // addresses: of lanes that are far apart, or any number.
  void access(Warp &warp, const Instruction *i, const Reach &reach, uint64_t lowest,
              const uint64_t *addresses, uint32_t bytes, AccessKind kind);
  void fence(const Warp &warp, bool among_block);
  void warp_barrier(const Warp &warp, uint32_t lanes);
  // A whole warp executes setmaxnreg; what it asks for is i->immediate.
  void set_registers(const Warp &warp, const Instruction *i) {
    if (looks_at_lanes_)
      set_registers_[warp.index].push_back(i);
  }
  // All threads of the block have ended.
  void end(const std::vector<Warp> &warps);
  // The active lanes arrive at barrier `id`, and do not wait there.
  void arrive(const Warp &warp, uint32_t id) {
    if (!follows_order_)
      return;
    races_.settle();
    clocks_.arrive(id, warp.index, warp.active);
  }
  // An asynchronous copy that `lane` issues: what it reads or writes of shared memory, from now until `end`
  // tells of it. A copy of several ranges gets them one by one, with the number that the first call gave.
  uint32_t begin_copy(const Warp &warp, const Instruction *i, uint32_t lane, CopyEnd end,
                      uint64_t mbarrier = 0);
  void copies(Warp &warp, uint32_t lane, uint64_t address, uint64_t bytes, bool writes, uint32_t copy) {
    if (copy != 0)
      races_.copy(warp, lane, address, bytes, writes, copy);
  }
  void commit_copies(const Warp &warp, CopyEnd end);
  void wait_for_copies(const Warp &warp, CopyEnd end, uint64_t groups);
  void wait_for_all_copies(const Warp &warp, CopyEnd end);
  void arrive_after_copies(const Warp &warp, uint32_t lane, uint64_t mbarrier);
  // wgmma by a warp: what it reads of shared memory, likewise. The groups of a warpgroup are phases of a gate
  // of its own: whoever waits for one of its warps has seen them, and so has who is ordered after that.
  uint32_t begin_product(const Warp &warp, const Instruction *i);
  void commit_products(const Warp &warp) {
    if (looks_at_shared_)
      ++product_groups_[warp.index];
  }
  void wait_for_products(const Warp &warp, uint64_t groups);
  // st.bulk.
  void clear(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes);
  // What lanes do with an mbarrier in shared memory.
  void begin_mbarrier(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address);
  void end_mbarrier(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address);
  void arrive_at_mbarrier(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, bool releases);
  void complete_phase(uint64_t mbarrier) {
    if (follows_order_)
      clocks_.complete_phase(mbarrier);
  }
  void see_phase(Warp &warp, const Instruction *i, uint32_t lane, uint64_t mbarrier);
  // The barrier is complete: who waits at it has arrived, and goes on. `of_all`: these are all threads there
  // are.
  void complete(const std::vector<Warp> &warps, uint32_t id, bool of_all);

private:
  // Whether parts of the warp wait at a barrier at different instructions. Parts at the same one may only
  // have been slower, and lanes that are elsewhere may be about to end: neither is told.
  void compare_places(const Warp &warp, uint32_t id);
  void report(const Warp &warp, const Instruction *i, FindingKind kind, uint32_t lanes);
  void touch_mbarrier(Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, AccessKind kind,
                      bool strong);

  bool follows_order_ = false, looks_at_shared_ = false, looks_at_lanes_ = false;
  uint64_t block_ = 0;
  Clocks clocks_;
  SharedRaces races_;
  GlobalRaces *between_ = nullptr; // of the launch; nullptr: not looked for
  GlobalRaces::OfBlock global_;
  std::vector<uint32_t> product_groups_; // that each warp has committed
  std::unique_ptr<BlockShadow> shadow_;
  std::vector<std::vector<const Instruction *>> set_registers_; // of each warp, in its order
};

// What these checks leave out of a launch.
std::vector<Unchecked> unchecked(const Launch &launch);

} // namespace emulator
