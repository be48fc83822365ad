#include "exec/machine/block.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "exec/machine/cluster.hpp"
#include "exec/machine/control.hpp"

namespace emulator {

namespace {

constexpr size_t row_alignment = 64;

struct SpecialValue {
  uint64_t bits;       // the same in all lanes, unless:
  bool varies = false; // per lane
};

} // namespace

void Buffer::resize(size_t bytes, size_t alignment) {
  storage_.reset(std::calloc(1, bytes + alignment));
  if (!storage_)
    throw std::bad_alloc();
  uintptr_t address = reinterpret_cast<uintptr_t>(storage_.get());
  data_ = static_cast<uint8_t *>(storage_.get()) + (alignment - address % alignment) % alignment;
  size_ = bytes;
}

void Block::prepare(const Launch &of, Worker &by) {
  launch = &of;
  worker = &by;
  const Program &program = *of.program;
  size_t register_bytes = (program.register_bytes + row_alignment - 1) / row_alignment * row_alignment;
  size_t alignment = std::max<size_t>(program.local_alignment, row_alignment);
  uint64_t local_bytes = (of.local_bytes + program.local_alignment - uint64_t{1}) / program.local_alignment *
                         program.local_alignment;
  registers.resize(register_bytes * of.warps_per_block, row_alignment);
  shared.resize(of.shared_end_bytes, ptx::most_alignment);
  local.resize(local_bytes * lanes_per_warp * of.warps_per_block, alignment);
  warps.clear();
  warps.resize(of.warps_per_block);
  for (uint32_t w = 0; w < of.warps_per_block; ++w) {
    Warp &warp = warps[w];
    warp.registers = registers.data() + w * register_bytes;
    warp.program = &program;
    warp.block = this;
    warp.worker = &by;
    warp.parameters = of.parameters;
    warp.ranges = by.ranges.data();
    warp.counters = &by.counters;
    warp.executed = by.executed.data();
    warp.index = w;
    warp.shared_base = reinterpret_cast<uint64_t>(shared.data());
    warp.shared_bytes = of.shared_end_bytes;
    warp.local_base = reinterpret_cast<uint64_t>(local.data()) + w * local_bytes * lanes_per_warp;
    warp.local_stride = local_bytes;
    for (const ConstantRow &constant : program.constants) {
      if (constant.lane_bytes == 0)
        warp.predicate(constant.offset) = constant.bits ? ~uint32_t{0} : 0;
      for (uint32_t l = 0; constant.lane_bytes != 0 && l < lanes_per_warp; ++l)
        std::memcpy(warp.registers + constant.offset + l * constant.lane_bytes, &constant.bits,
                    constant.lane_bytes);
    }
  }
  fill_specials(true);
}

namespace {

bool changes_with_block(Special special) {
  switch (special) {
  case Special::ctaid_x:
  case Special::ctaid_y:
  case Special::ctaid_z:
  case Special::smid:
  case Special::clusterid_x:
  case Special::clusterid_y:
  case Special::clusterid_z:
  case Special::cluster_ctaid_x:
  case Special::cluster_ctaid_y:
  case Special::cluster_ctaid_z:
  case Special::cluster_ctarank:
    return true;
  default:
    return false;
  }
}

uint64_t special_value(const Block &block, const Warp &warp, uint32_t lane, Special special) {
  const LaunchRequest &request = *block.launch->request;
  const Dim3 &n = request.block;
  Dim3 cluster{std::max(1u, request.cluster.x), std::max(1u, request.cluster.y),
               std::max(1u, request.cluster.z)};
  uint32_t linear = warp.index * lanes_per_warp + lane;
  auto in_cluster = [&](int d, uint32_t extent) { return block.position[d] % extent; };
  switch (special) {
  case Special::tid_x:
    return linear % n.x;
  case Special::tid_y:
    return linear / n.x % n.y;
  case Special::tid_z:
    return linear / n.x / n.y;
  case Special::ntid_x:
    return n.x;
  case Special::ntid_y:
    return n.y;
  case Special::ntid_z:
    return n.z;
  case Special::ctaid_x:
    return block.position[0];
  case Special::ctaid_y:
    return block.position[1];
  case Special::ctaid_z:
    return block.position[2];
  case Special::nctaid_x:
    return request.grid.x;
  case Special::nctaid_y:
    return request.grid.y;
  case Special::nctaid_z:
    return request.grid.z;
  case Special::laneid:
    return lane;
  case Special::warpid:
    return warp.index;
  case Special::nwarpid:
    return 64;
  case Special::smid:
    return block.index % std::max(1u, request.multiprocessors);
  case Special::nsmid:
    return std::max(1u, request.multiprocessors);
  case Special::gridid:
    return 1;
  case Special::lanemask_eq:
    return uint32_t{1} << lane;
  case Special::lanemask_le:
    return (uint64_t{2} << lane) - 1;
  case Special::lanemask_lt:
    return (uint64_t{1} << lane) - 1;
  case Special::lanemask_ge:
    return ~uint32_t{0} << lane;
  case Special::lanemask_gt:
    return static_cast<uint32_t>(~uint64_t{0} << (lane + 1));
  case Special::clusterid_x:
    return block.position[0] / cluster.x;
  case Special::clusterid_y:
    return block.position[1] / cluster.y;
  case Special::clusterid_z:
    return block.position[2] / cluster.z;
  case Special::nclusterid_x:
    return request.grid.x / cluster.x;
  case Special::nclusterid_y:
    return request.grid.y / cluster.y;
  case Special::nclusterid_z:
    return request.grid.z / cluster.z;
  case Special::cluster_ctaid_x:
    return in_cluster(0, cluster.x);
  case Special::cluster_ctaid_y:
    return in_cluster(1, cluster.y);
  case Special::cluster_ctaid_z:
    return in_cluster(2, cluster.z);
  case Special::cluster_nctaid_x:
    return cluster.x;
  case Special::cluster_nctaid_y:
    return cluster.y;
  case Special::cluster_nctaid_z:
    return cluster.z;
  case Special::cluster_ctarank:
    return in_cluster(0, cluster.x) +
           cluster.x * (in_cluster(1, cluster.y) + cluster.y * in_cluster(2, cluster.z));
  case Special::cluster_nctarank:
    return uint64_t{cluster.x} * cluster.y * cluster.z;
  case Special::is_explicit_cluster:
    return uint64_t{cluster.x} * cluster.y * cluster.z > 1;
  case Special::dynamic_smem_size:
    return request.dynamic_shared_bytes;
  case Special::total_smem_size:
    return block.launch->shared_whole_bytes;
  case Special::one:
    return 1;
  case Special::parameters:
    return reinterpret_cast<uint64_t>(block.launch->parameters);
  case Special::envreg1:
    return reinterpret_cast<uint64_t>(block.launch->workspace.data()) >> 32;
  case Special::envreg2:
    return reinterpret_cast<uint64_t>(block.launch->workspace.data()) & 0xffffffff;
  default:
    return 0;
  }
}

} // namespace

void Block::fill_specials(bool constant_in_launch) {
  for (Warp &warp : warps)
    for (const SpecialRow &row : launch->program->specials) {
      if (changes_with_block(row.special) == constant_in_launch)
        continue;
      if (constant_in_launch) {
        for (uint32_t l = 0; l < lanes_per_warp; ++l) {
          uint64_t value = special_value(*this, warp, l, row.special);
          std::memcpy(warp.registers + row.offset + l * row.lane_bytes, &value, row.lane_bytes);
        }
      } else {
        uint64_t value = special_value(*this, warp, 0, row.special);
        if (row.lane_bytes == 4) {
          std::fill_n(warp.row<uint32_t>(row.offset), lanes_per_warp, static_cast<uint32_t>(value));
        } else {
          for (uint32_t l = 0; l < lanes_per_warp; ++l)
            std::memcpy(warp.registers + row.offset + l * row.lane_bytes, &value, row.lane_bytes);
        }
      }
    }
}

void Block::start(uint64_t linear_index) {
  const Dim3 &grid = launch->request->grid;
  index = linear_index;
  position[0] = static_cast<uint32_t>(linear_index % grid.x);
  position[1] = static_cast<uint32_t>(linear_index / grid.x % grid.y);
  position[2] = static_cast<uint32_t>(linear_index / grid.x / grid.y);
  live_threads = launch->threads_per_block;
  for (Barrier &barrier : barriers)
    barrier = Barrier{};
  std::memset(shared.data(), 0, shared.size());
  for (uint32_t w = 0; w < warps.size(); ++w) {
    uint32_t threads = std::min(lanes_per_warp, launch->threads_per_block - w * lanes_per_warp);
    warps[w].start(threads == lanes_per_warp ? ~uint32_t{0} : (uint32_t{1} << threads) - 1);
    for (const RowRange &row : launch->program->undefined_rows)
      std::memset(warps[w].registers + row.offset, 0, row.row_bytes);
  }
  fill_specials(false);
}

Block::State Block::run(int64_t instructions_per_warp) {
  // Warps that meet at a barrier again and again never use up a budget of their own.
  const int64_t most = instructions_per_warp * static_cast<int64_t>(warps.size());
  const uint64_t steps = launch->request->interleave;
  spent = 0;
  while (live_threads != 0) {
    bool progress = false, exhausted = false;
    for (Warp &warp : warps) {
      if (warp.ready.empty())
        continue;
      progress = true;
      warp.run(instructions_per_warp, steps);
      spent += instructions_per_warp - warp.budget + 1;
      exhausted |= steps == 0 && !warp.ready.empty();
    }
    if (live_threads != 0 && (exhausted || (progress && spent >= most))) {
      cluster->progressed();
      return State::exhausted;
    }
    if (!progress) {
      // Lanes that others wait for may themselves wait to meet again.
      for (Warp &warp : warps)
        progress |= warp.detach_joins();
      if (!progress)
        return State::stuck;
    }
  }
  return State::done;
}

bool Block::can_run() const {
  return std::any_of(warps.begin(), warps.end(), [](const Warp &warp) { return !warp.ready.empty(); });
}

const Instruction *Block::arrive(Warp &warp, const Instruction *i) {
  uint32_t first = static_cast<uint32_t>(__builtin_ctz(warp.active));
  uint32_t id = warp.row<uint32_t>(i->a)[first];
  if (id >= barriers_per_block)
    fail(warp, i, LaunchStatus::illegal_instruction, "there is no barrier " + std::to_string(id), first);
  Barrier &barrier = barriers[id];
  auto kind = static_cast<control::BarrierKind>(i->immediate);
  bool counted = i->b != no_offset;
  if (counted) {
    uint32_t threads = warp.row<uint32_t>(i->b)[first];
    if (threads == 0 || threads % lanes_per_warp != 0)
      fail(warp, i, LaunchStatus::illegal_instruction,
           "a barrier for " + std::to_string(threads) + " threads: the number must be a multiple of 32",
           first);
    barrier.expected = threads;
  }
  barrier.open = true;
  barrier.arrived += counted && warp.active == warp.live ? lanes_per_warp : warp.active_lanes();
  if (i->c != no_offset) {
    uint32_t on = warp.predicate(i->c) & warp.active;
    barrier.all &= on == warp.active;
    barrier.any |= on != 0;
    barrier.ones += static_cast<uint32_t>(__builtin_popcount(on));
  }
  const Instruction *next = i + 1;
  if (kind == control::BarrierKind::arrive)
    next = warp.go_to(i + 1);
  else
    next = warp.wait_at_barrier(i, static_cast<int32_t>(id));
  complete(id);
  return next;
}

void Block::complete(uint32_t id) {
  Barrier &barrier = barriers[id];
  if (!barrier.open || barrier.arrived < (barrier.expected ? barrier.expected : live_threads))
    return;
  Barrier done = barrier;
  barrier = Barrier{};
  cluster->progressed();
  for (Warp &warp : warps) {
    size_t kept = 0;
    for (size_t k = 0; k < warp.waiting.size(); ++k) {
      const WaitingGroup &group = warp.waiting[k];
      if (group.barrier != static_cast<int32_t>(id)) {
        warp.waiting[kept++] = group;
        continue;
      }
      const Instruction *i = group.instruction;
      auto kind = static_cast<control::BarrierKind>(i->immediate);
      if (kind == control::BarrierKind::reduce_and || kind == control::BarrierKind::reduce_or) {
        bool value = kind == control::BarrierKind::reduce_and ? done.all : done.any;
        uint32_t &p = warp.predicate(i->destination);
        p = (p & ~group.participants) | (value ? group.participants : 0);
      } else if (kind == control::BarrierKind::reduce_popc) {
        for (uint32_t lanes = group.participants; lanes; lanes &= lanes - 1)
          warp.row<uint32_t>(i->destination)[__builtin_ctz(lanes)] = done.ones;
      }
      warp.ready.push_back(group.group);
    }
    warp.waiting.resize(kept);
  }
}

void Block::threads_left(uint32_t count) {
  live_threads -= count;
  for (uint32_t id = 0; id < barriers_per_block && live_threads != 0; ++id)
    complete(id);
  cluster->threads_left();
}

} // namespace emulator
