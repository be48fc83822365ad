#include "exec/block/cluster.hpp"

#include <cstdio>
#include <cstring>

#include "exec/block/pending.hpp"

namespace emulator {

namespace {

// What waits for an mbarrier is woken when nothing else can run, as after the time limit of try_wait. Woken
// so often with nobody else getting further, it waits for what never comes.
constexpr uint32_t most_vain_wakes = 10000;

} // namespace

Cluster::Cluster() = default;
Cluster::~Cluster() = default;

void cluster_position(const LaunchRequest &request, uint64_t cluster, uint32_t (&position)[3]) {
  const Dim3 &grid = request.grid, &size = request.cluster;
  uint64_t columns = grid.x / size.x, rows = grid.y / size.y;
  position[0] = static_cast<uint32_t>(cluster % columns * size.x);
  position[1] = static_cast<uint32_t>(cluster / columns % rows * size.y);
  position[2] = static_cast<uint32_t>(cluster / columns / rows * size.z);
}

void Cluster::prepare(const Launch &of, Worker &by) {
  launch = &of;
  if (of.request->deferred)
    pending = std::make_unique<PendingOperations>(of.request->deferred_seed);
  for (uint64_t rank = 0; rank < blocks_per_cluster(*of.request); ++rank) {
    blocks.push_back(std::make_unique<Block>());
    blocks.back()->prepare(of, by);
    blocks.back()->cluster = this;
    blocks.back()->pending = pending.get();
  }
}

void Cluster::start(uint64_t linear_index) {
  index = linear_index;
  arrived_ = 0;
  vain_wakes_ = 0;
  if (pending)
    pending->start(index);
  if (blocks.size() == 1) {
    blocks[0]->start(linear_index);
    return;
  }
  const Dim3 &grid = launch->request->grid, &size = launch->request->cluster;
  uint32_t first[3];
  cluster_position(*launch->request, index, first);
  for (uint64_t rank = 0; rank < blocks.size(); ++rank) {
    uint64_t at_x = first[0] + rank % size.x, at_y = first[1] + rank / size.x % size.y,
             at_z = first[2] + rank / size.x / size.y;
    blocks[rank]->start(at_x + grid.x * (at_y + grid.y * at_z));
  }
}

bool Cluster::run(int64_t instructions_per_warp) {
  // Blocks that wait for each other again and again never use up a budget of their own.
  int64_t spent = 0;
  for (;;) {
    bool done = true, exhausted = false;
    int64_t most = 0;
    for (auto &block : blocks) {
      if (block->live_threads == 0)
        continue;
      Block::State state = block->run(instructions_per_warp);
      exhausted |= state == Block::State::exhausted;
      if (exhausted || block->passed_barrier)
        progressed();
      spent += block->spent + 1;
      most += instructions_per_warp * static_cast<int64_t>(block->warps.size());
      done &= state == Block::State::done;
    }
    if (done) {
      if (pending)
        pending->finish_all();
      return true;
    }
    if (exhausted || spent > most) {
      finish_awaited(); // somebody may spin until those that wait get further
      return false;
    }
    bool ready = false;
    for (auto &block : blocks)
      ready |= block->can_run();
    if (ready || finish_awaited())
      continue;
    if (awaits_prerequisite())
      return false;
    if (!wake_in_vain())
      report_deadlock();
  }
}

void Cluster::arrive(Warp &warp) {
  if (uint32_t lanes = warp.active & warp.at_cluster_barrier)
    fail(warp, warp.current.next, LaunchStatus::illegal_instruction,
         "barrier.cluster.arrive twice without a wait", first_lane(lanes));
  warp.at_cluster_barrier |= warp.active;
  arrived_ += warp.active_lanes();
  threads_left();
}

void Cluster::threads_left() {
  uint32_t live = 0;
  for (auto &block : blocks)
    live += block->live_threads;
  // A thread that exits after its arrival counts for neither side.
  if (live == 0 || arrived_ == 0)
    return;
  uint32_t arrived = 0;
  for (auto &block : blocks)
    for (Warp &warp : block->warps)
      arrived += static_cast<uint32_t>(__builtin_popcount(warp.at_cluster_barrier & warp.live));
  if (arrived < live)
    return;
  arrived_ = 0;
  progressed();
  for (auto &block : blocks)
    for (Warp &warp : block->warps) {
      warp.at_cluster_barrier = 0;
      warp.wake([](const WaitingGroup &group) { return group.barrier == waits_for_cluster; }, true);
    }
}

bool Cluster::awaits_prerequisite() const {
  for (const auto &block : blocks)
    for (const Warp &warp : block->warps)
      for (const WaitingGroup &group : warp.waiting)
        if (group.barrier == waits_for_prerequisite)
          return true;
  return false;
}

void Cluster::prerequisite_ran() {
  progressed();
  for (auto &block : blocks)
    for (Warp &warp : block->warps)
      warp.wake([](const WaitingGroup &group) { return group.barrier == waits_for_prerequisite; }, true);
}

void Cluster::phase_completed(uint64_t mbarrier) {
  progressed();
  for (auto &block : blocks)
    for (Warp &warp : block->warps)
      warp.wake(
          [mbarrier](const WaitingGroup &group) {
            return group.barrier == waits_for_mbarrier && group.awaited.address == mbarrier;
          },
          false);
}

// One of the operations that lanes wait for through an mbarrier.
bool Cluster::finish_awaited() {
  if (!pending)
    return false;
  for (auto &block : blocks)
    for (Warp &warp : block->warps)
      for (const WaitingGroup &group : warp.waiting)
        if (group.barrier == waits_for_mbarrier && pending->finish_for(group.awaited.address))
          return true;
  return false;
}

void Cluster::fence_shared() {
  for (auto &block : blocks)
    std::memcpy(block->fenced_shared.data(), block->shared.data(), block->fenced_shared.size());
}

uint64_t Cluster::fenced_distance(uint64_t address) const {
  const Block *holder = pending ? block_at(address, 1) : nullptr;
  return holder ? reinterpret_cast<uint64_t>(holder->fenced_shared.data()) - holder->warps[0].shared_base : 0;
}

uint64_t Cluster::distance_to_fenced(uint64_t address, uint64_t bytes) const {
  uint64_t distance = fenced_distance(address);
  bool same = distance == 0 || std::memcmp(reinterpret_cast<const void *>(address),
                                           reinterpret_cast<const void *>(address + distance), bytes) == 0;
  return same ? 0 : distance;
}

void Cluster::written_asynchronously(uint64_t address, uint64_t bytes) {
  if (uint64_t distance = fenced_distance(address))
    std::memcpy(reinterpret_cast<void *>(address + distance), reinterpret_cast<const void *>(address), bytes);
}

bool Cluster::wake_in_vain() {
  if (++vain_wakes_ > most_vain_wakes)
    return false;
  bool any = false;
  for (auto &block : blocks)
    for (Warp &warp : block->warps) {
      for (const WaitingGroup &group : warp.waiting)
        if (group.barrier == waits_for_mbarrier)
          group.awaited.put_answers(warp, group.instruction, group.participants);
      any |= warp.wake([](const WaitingGroup &group) { return group.barrier == waits_for_mbarrier; }, true);
    }
  return any;
}

uint64_t Cluster::generic_address(const Block &own, uint64_t shared_address) const {
  uint64_t rank = (shared_address ^ other_block) >> rank_shift;
  if (!(shared_address & other_block) || rank >= blocks.size())
    return own.warps[0].shared_base + shared_address;
  return blocks[rank]->warps[0].shared_base + (shared_address & ((uint64_t{1} << rank_shift) - 1));
}

size_t Cluster::rank_of(const Block &block) const {
  size_t rank = 0;
  while (blocks[rank].get() != &block)
    ++rank;
  return rank;
}

Block *Cluster::peer_of(const Block &block) const {
  size_t other = rank_of(block) ^ 1;
  return other < blocks.size() ? blocks[other].get() : nullptr;
}

void Cluster::columns_released(Block &block) {
  progressed();
  for (Warp &warp : block.warps)
    warp.wake([](const WaitingGroup &group) { return group.barrier == waits_for_tensor_memory; }, false);
}

const Block *Cluster::block_at(uint64_t address, uint64_t bytes) const {
  for (const auto &block : blocks) {
    const Warp &warp = block->warps[0];
    if (address >= warp.shared_base && address - warp.shared_base <= warp.shared_bytes &&
        warp.shared_bytes - (address - warp.shared_base) >= bytes)
      return block.get();
  }
  return nullptr;
}

void Cluster::report_timeout() {
  std::string what = "kernel " + launch->program->info.name + " ran longer than " +
                     std::to_string(launch->request->timeout_ms) + " ms";
  for (const auto &block : blocks)
    for (const Warp &warp : block->warps) {
      // The warp that runs, where there is one: what spins is more telling than what waits for it.
      if (!warp.ready.empty())
        fail(warp, warp.ready.back().next, LaunchStatus::timeout, what, first_lane(warp.ready.back().lanes));
    }
  throw Fault{LaunchStatus::timeout, what};
}

void Cluster::report_deadlock() {
  for (const auto &block : blocks)
    for (const Warp &warp : block->warps)
      for (const WaitingGroup &group : warp.waiting) {
        std::string what = "deadlock: " + std::to_string(__builtin_popcount(group.participants)) +
                           " lanes of warp " + std::to_string(warp.index) + " wait ";
        if (group.barrier == waits_for_cluster) {
          uint32_t live = 0;
          for (const auto &other : blocks)
            live += other->live_threads;
          what += "at the barrier of the cluster, where " + std::to_string(arrived_) + " of " +
                  std::to_string(live) + " threads have arrived";
        } else if (group.awaited.describe) {
          what += "for " + group.awaited.describe(warp, group.awaited.address);
        } else if (group.barrier >= 0) {
          const Barrier &barrier = block->barriers[group.barrier];
          what += "at barrier " + std::to_string(group.barrier) + ", where " +
                  std::to_string(barrier.arrived) + " of " +
                  std::to_string(barrier.expected ? barrier.expected : block->live_threads) +
                  " threads have arrived";
        } else {
          char lanes[16];
          std::snprintf(lanes, sizeof lanes, "0x%08x", group.named & warp.live & ~group.participants);
          what += std::string("for the lanes ") + lanes + ", which do not come";
        }
        fail(warp, group.instruction, LaunchStatus::deadlock, what, first_lane(group.participants));
      }
  throw Fault{LaunchStatus::deadlock, "deadlock: no thread of a block can run"};
}

} // namespace emulator
