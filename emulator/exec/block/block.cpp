#include "exec/block/block.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "exec/block/pending.hpp"
#include "exec/block/specials.hpp"

namespace emulator {

namespace {

constexpr size_t row_alignment = 64;
// Where asynchronous operations may be done at any moment: after which another warp runs.
constexpr uint64_t instructions_per_moment = 32;

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
  shared.resize(of.shared_end_bytes, of.shared_end_bytes ? ptx::most_alignment : row_alignment);
  local.resize(local_bytes * lanes_per_warp * of.warps_per_block, alignment);
  if (of.request->deferred) {
    fenced_shared.resize(shared.size(), row_alignment);
    if (!program.product_rows.empty())
      fenced_registers.resize(registers.size(), row_alignment);
  }
  warps.clear();
  warps.resize(of.warps_per_block);
  for (uint32_t w = 0; w < of.warps_per_block; ++w) {
    Warp &warp = warps[w];
    warp.registers = registers.data() + w * register_bytes;
    warp.program = &program;
    warp.launch = &of;
    warp.block = this;
    warp.position = position;
    warp.worker = &by;
    warp.spare_row = by.spare_row;
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
  checks = BlockChecks::create(of, warps);
}

void Block::fill_specials(bool constant_in_launch) {
  for (Warp &warp : warps)
    for (const SpecialRow &row : launch->program->specials) {
      if (changes_with_block(row.special) == constant_in_launch)
        continue;
      if (constant_in_launch) {
        for (uint32_t l = 0; l < lanes_per_warp; ++l) {
          uint64_t value = special_value(warp, index, l, row.special);
          std::memcpy(warp.registers + row.offset + l * row.lane_bytes, &value, row.lane_bytes);
        }
      } else {
        uint64_t value = special_value(warp, index, 0, row.special);
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
  for (; open_barriers; open_barriers &= open_barriers - 1)
    barriers[first_lane(open_barriers)] = Barrier{};
  std::memset(shared.data(), 0, shared.size());
  for (const Buffer *fenced : {&fenced_shared, &fenced_registers})
    if (fenced->size() != 0)
      std::memset(fenced->data(), 0, fenced->size());
  if (tensor_memory)
    tensor_memory->start();
  if (checks)
    checks->start(index);
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
  const bool in_moments = pending && pending->has_seed();
  const uint64_t interleave = launch->request->interleave;
  const uint64_t steps = in_moments && interleave == 0 ? instructions_per_moment : interleave;
  spent = 0;
  passed_barrier = false;
  while (live_threads != 0) {
    bool progress = false, exhausted = false;
    for (Warp &warp : warps) {
      if (warp.ready.empty())
        continue;
      progress = true;
      warp.run(instructions_per_warp, steps);
      spent += instructions_per_warp - warp.budget + 1;
      if (in_moments)
        pending->pass_moment();
      exhausted |= steps == 0 && !warp.ready.empty();
    }
    if (live_threads != 0 && (exhausted || (progress && spent >= most)))
      return State::exhausted;
    if (!progress) {
      // Lanes that others wait for may themselves wait to meet again.
      for (Warp &warp : warps)
        progress |= warp.detach_joins();
      if (!progress)
        return State::stuck;
    }
  }
  if (checks)
    checks->end(warps);
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
  auto kind = static_cast<BarrierKind>(i->immediate);
  bool counted = i->b != no_offset;
  if (counted) {
    uint32_t threads = warp.row<uint32_t>(i->b)[first];
    if (threads == 0 || threads % lanes_per_warp != 0)
      fail(warp, i, LaunchStatus::illegal_instruction,
           "a barrier for " + std::to_string(threads) + " threads: the number must be a multiple of 32",
           first);
    barrier.expected = threads;
  }
  open_barriers |= uint32_t{1} << id;
  barrier.arrived += counted && warp.active == warp.live ? lanes_per_warp : warp.active_lanes();
  if (i->c != no_offset) {
    uint32_t on = warp.predicate(i->c) & warp.active;
    barrier.all &= on == warp.active;
    barrier.any |= on != 0;
    barrier.ones += static_cast<uint32_t>(__builtin_popcount(on));
  }
  const Instruction *next = i + 1;
  if (kind == BarrierKind::arrive) {
    if (checks)
      checks->arrive(warp, id);
    next = warp.go_to(i + 1);
  } else {
    next = warp.wait_at_barrier(i, static_cast<int32_t>(id));
  }
  complete(id);
  return next;
}

void Block::fence_registers(const Warp &warp) {
  for (const RowRange &row : launch->program->product_rows)
    std::memcpy(fenced_row(warp, row.offset), warp.registers + row.offset, row.row_bytes);
}

uint32_t Block::waiting_at(uint32_t id) const {
  uint32_t threads = 0;
  for (const Warp &warp : warps)
    for (const WaitingGroup &group : warp.waiting)
      if (group.barrier == static_cast<int32_t>(id))
        threads += count_lanes(group.participants);
  return threads;
}

void Block::complete(uint32_t id) {
  Barrier &barrier = barriers[id];
  if (barrier.arrived < (barrier.expected ? barrier.expected : live_threads))
    return;
  Barrier done = barrier;
  barrier = Barrier{};
  open_barriers &= ~(uint32_t{1} << id);
  passed_barrier = true;
  if (checks)
    // Threads that have exited are at no barrier that says how many it waits for.
    checks->complete(warps, id, waiting_at(id) == (done.expected ? launch->threads_per_block : live_threads));
  for (Warp &warp : warps) {
    size_t kept = 0;
    for (size_t k = 0; k < warp.waiting.size(); ++k) {
      const WaitingGroup &group = warp.waiting[k];
      if (group.barrier != static_cast<int32_t>(id)) {
        warp.waiting[kept++] = group;
        continue;
      }
      const Instruction *i = group.instruction;
      auto kind = static_cast<BarrierKind>(i->immediate);
      if (kind == BarrierKind::reduce_and || kind == BarrierKind::reduce_or) {
        bool value = kind == BarrierKind::reduce_and ? done.all : done.any;
        uint32_t &p = warp.predicate(i->destination);
        p = (p & ~group.participants) | (value ? group.participants : 0);
      } else if (kind == BarrierKind::reduce_popc) {
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
  if (live_threads == 0 && tensor_memory && !tensor_memory->allocations().empty()) {
    const TensorMemory::Allocation &left = tensor_memory->allocations().front();
    fail(*left.warp, left.by, LaunchStatus::illegal_instruction,
         "the block ends with tensor memory that was never deallocated: " + std::to_string(left.count) +
             " columns from column " + std::to_string(left.column) + " on, allocated",
         0);
  }
  for (uint32_t open = live_threads ? open_barriers : 0; open; open &= open - 1)
    complete(first_lane(open));
}

TensorMemory &Block::tensor() {
  if (!tensor_memory)
    tensor_memory = std::make_unique<TensorMemory>();
  return *tensor_memory;
}

} // namespace emulator
