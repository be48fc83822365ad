// tcgen05.alloc, .dealloc, .relinquish_alloc_permit, .commit.
#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/block/issue.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/mbarrier.hpp"
#include "exec/operations/matrix/whole_warp.hpp"
#include "exec/tensor_memory/tensor_memory.hpp"

namespace emulator::tensor_memory {

namespace {

[[noreturn]] void refuse(Warp &w, const Instruction *i, const std::string &why) {
  fail(w, i, LaunchStatus::illegal_instruction, why, 0);
}

uint32_t columns_of(Warp &w, const Instruction *i, const char *name) {
  uint32_t count = operand<uint32_t>(w, i, 1, 0);
  if (count < TensorMemory::least_columns || count > TensorMemory::columns || (count & (count - 1)) != 0)
    refuse(w, i,
           std::string(name) + " of " + std::to_string(count) +
               " columns: the number must be a power of 2 from 32 to 512");
  for (uint32_t lane = 1; lane < lanes_per_warp; ++lane)
    if (operand<uint32_t>(w, i, 1, lane) != count)
      refuse(w, i, std::string(name) + " by threads that name different numbers of columns");
  return count;
}

std::string describe(const Warp &w, uint64_t columns) {
  return std::to_string(columns) + " columns of tensor memory, of which the block has " +
         std::to_string(w.block->tensor().free_columns()) + " left, not all of them adjacent";
}

// The first column, in both blocks of a pair; TensorMemory::columns where there are too few.
uint32_t take_columns(Warp &w, const Instruction *i, uint32_t count) {
  TensorMemory &own = w.block->tensor();
  if (!i->immediate)
    return own.allocate(count, w, i, true);
  Block *peer = w.block->cluster->peer_of(*w.block);
  if (!peer)
    refuse(w, i, "tcgen05 with cta_group::2 by a block that has no other to form a pair with");
  if (TensorMemory::Allocation *pending = own.pending()) {
    if (pending->count != count)
      refuse(w, i,
             "tcgen05.alloc of " + std::to_string(count) +
                 " columns, where the other block of the pair has " + std::to_string(pending->count));
    *pending = {pending->column, count, &w, i, true};
    return pending->column;
  }
  uint32_t column = own.allocate(count, w, i, true);
  if (column == TensorMemory::columns)
    return column;
  uint32_t there = peer->tensor().allocate(count, w, i, false);
  if (there == column)
    return column;
  own.release(column, count);
  if (there != TensorMemory::columns)
    peer->tensor().release(there, count);
  return TensorMemory::columns;
}

} // namespace

const Instruction *allocate(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "tcgen05.alloc"))
    return nullptr;
  uint32_t count = columns_of(w, i, "tcgen05.alloc");
  if (w.block->tensor().relinquished)
    refuse(w, i, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
  uint64_t address = operand<uint64_t>(w, i, 0, 0);
  if (address % 4 != 0)
    misaligned(w, i, 0, address, 4);
  check_access(w, i, 0, address, 4, true);
  if (w.block->cluster->block_at(address, 4) != w.block)
    fail(w, i, LaunchStatus::illegal_address, "tcgen05.alloc to an address that is not in shared memory", 0);
  uint32_t column = take_columns(w, i, count);
  if (column == TensorMemory::columns) {
    // Lanes that came one by one are not one group that could wait.
    if (w.current.lanes != ~uint32_t{0})
      refuse(w, i, "tcgen05.alloc of a warp that has parted, of " + describe(w, count));
    const Instruction *stopped = w.wait_at_barrier(i, waits_for_tensor_memory);
    w.waiting.back().awaited = {count, nullptr, describe};
    return stopped;
  }
  std::memcpy(reinterpret_cast<void *>(address), &column, 4);
  return w.go_to(i + 1);
}

const Instruction *deallocate(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "tcgen05.dealloc"))
    return nullptr;
  uint32_t count = columns_of(w, i, "tcgen05.dealloc");
  TensorAddress at(operand<uint32_t>(w, i, 0, 0));
  if (at.lane != 0 || !w.block->tensor().release(at.column, count))
    refuse(w, i,
           "tcgen05.dealloc of " + std::to_string(count) + " columns from column " +
               std::to_string(at.column) + " on, lane " + std::to_string(at.lane) +
               ", which no tcgen05.alloc gave");
  w.block->cluster->columns_released(*w.block);
  if (Block *peer = i->immediate ? w.block->cluster->peer_of(*w.block) : nullptr)
    w.block->cluster->columns_released(*peer);
  return i + 1;
}

const Instruction *relinquish(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "tcgen05.relinquish_alloc_permit"))
    return nullptr;
  w.block->tensor().relinquished = true;
  return i + 1;
}

const Instruction *commit(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t mbarrier = operand<uint64_t>(w, i, 0, lane);
    Deliveries to(w, i, 1, lane, mbarrier, mbarrier);
    issue_in_order(w, lane, Track::tensor, to.signals(), [=, &w] {
      for (const Delivery &each : to)
        mbarrier::arrive_once(w, i, lane, each.mbarrier);
    });
  }
  return i + 1;
}

} // namespace emulator::tensor_memory
