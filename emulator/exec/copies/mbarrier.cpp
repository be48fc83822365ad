#include "exec/copies/mbarrier.hpp"

#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/block/pending.hpp"
#include "exec/interface/hexadecimal.hpp"

namespace emulator::mbarrier {

namespace {

// Bits: 0 pending arrivals, 20 arrivals of the next phase, 40 bytes to come (signed), 61 initialised, 63
// phase. The limits are those of the PTX ISA: counts up to 2^20 - 1, bytes between -(2^20 - 1) and 2^20 - 1.
constexpr int64_t most = (1 << 20) - 1;

struct State {
  int64_t pending = 0, expected = 0, bytes = 0;
  bool valid = false, phase = false;
};

uint64_t packed(const State &s) {
  return static_cast<uint64_t>(s.pending) | static_cast<uint64_t>(s.expected) << 20 |
         (static_cast<uint64_t>(s.bytes) & 0x1fffff) << 40 | uint64_t{s.valid} << 61 |
         uint64_t{s.phase} << 63;
}

State unpacked(uint64_t bits) {
  State s;
  s.pending = static_cast<int64_t>(bits & pending_mask);
  s.expected = static_cast<int64_t>(bits >> 20 & pending_mask);
  s.bytes = static_cast<int64_t>(bits << 3) >> 43;
  s.valid = bits >> 61 & 1;
  s.phase = bits >> 63;
  return s;
}

template <typename T>
T operand(Warp &w, const Instruction *i, uint32_t number, uint32_t lane, T otherwise = 0) {
  uint32_t offset = w.program->extra[i->extra + number];
  return offset == no_offset ? otherwise : w.row<T>(offset)[lane];
}

State load(Warp &w, const Instruction *i, uint32_t lane, uint64_t address) {
  if (address % 8 != 0)
    misaligned(w, i, lane, address, 8);
  check_access(w, i, lane, address, 8, true);
  uint64_t bits;
  std::memcpy(&bits, reinterpret_cast<const void *>(address), 8);
  State s = unpacked(bits);
  if (!s.valid)
    fail(w, i, LaunchStatus::illegal_instruction, "an mbarrier that is not initialised", lane);
  return s;
}

void store(uint64_t address, const State &s) {
  uint64_t bits = packed(s);
  std::memcpy(reinterpret_cast<void *>(address), &bits, 8);
}

// Ends the phase when nothing is missing any more.
void settle(Warp &w, uint64_t address, State s) {
  bool ends = s.pending == 0 && s.bytes == 0;
  if (ends) {
    s.phase = !s.phase;
    s.pending = s.expected;
  }
  store(address, s);
  if (!ends)
    return;
  if (w.block->checks)
    w.block->checks->complete_phase(address);
  w.block->cluster->phase_completed(address);
}

void add_bytes(Warp &w, const Instruction *i, uint32_t lane, State &s, int64_t bytes) {
  s.bytes += bytes;
  if (s.bytes > most || s.bytes < -most)
    fail(w, i, LaunchStatus::illegal_instruction,
         "an mbarrier with " + std::to_string(s.bytes) + " bytes to come: the limit is 2^20 - 1", lane);
}

uint32_t answers(Warp &w, const Instruction *i, uint32_t lanes) {
  uint32_t bits = 0;
  for (; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    State s = load(w, i, lane, operand<uint64_t>(w, i, 0, lane));
    bool phase = i->immediate ? operand<uint32_t>(w, i, 1, lane) & 1 : operand<uint64_t>(w, i, 1, lane) >> 63;
    bits |= static_cast<uint32_t>(phase != s.phase) << lane;
  }
  return bits;
}

void put_answers(Warp &w, const Instruction *i, uint32_t lanes) {
  uint32_t &p = w.predicate(i->destination), found = answers(w, i, lanes);
  p = (p & ~lanes) | found;
  for (; w.block->checks && found; found &= found - 1) {
    uint32_t lane = first_lane(found);
    w.block->checks->see_phase(w, i, lane, operand<uint64_t>(w, i, 0, lane));
  }
}

std::string describe(const Warp &w, uint64_t address) {
  uint64_t bits;
  std::memcpy(&bits, reinterpret_cast<const void *>(address), 8);
  State s = unpacked(bits);
  const Block *holder = w.block->cluster->block_at(address, 8);
  uint64_t place = holder ? address - holder->warps[0].shared_base : address;
  return "the mbarrier at " + hexadecimal(place) + " in shared memory, where " + std::to_string(s.pending) +
         " arrivals and " + std::to_string(s.bytes) + " bytes are missing";
}

} // namespace

const Instruction *initialise(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t address = operand<uint64_t>(w, i, 0, lane);
    uint32_t count = operand<uint32_t>(w, i, 1, lane);
    if (address % 8 != 0)
      misaligned(w, i, lane, address, 8);
    check_access(w, i, lane, address, 8, true);
    if (count == 0 || count > most)
      fail(w, i, LaunchStatus::illegal_instruction,
           "mbarrier.init with a count of " + std::to_string(count) + ": 1 to 2^20 - 1 are possible", lane);
    State s;
    s.pending = s.expected = count;
    s.valid = true;
    store(address, s);
    if (w.block->checks)
      w.block->checks->begin_mbarrier(w, i, lane, address);
  }
  return i + 1;
}

const Instruction *invalidate(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint64_t address = operand<uint64_t>(w, i, 0, first_lane(lanes));
    load(w, i, first_lane(lanes), address);
    std::memset(reinterpret_cast<void *>(address), 0, 8);
    if (w.block->checks)
      w.block->checks->end_mbarrier(w, i, first_lane(lanes), address);
  }
  return i + 1;
}

const Instruction *arrive(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t address = operand<uint64_t>(w, i, 0, lane);
    int64_t count = operand<uint32_t>(w, i, 1, lane, 1);
    State s = load(w, i, lane, address);
    if (i->destination != no_offset)
      w.row<uint64_t>(i->destination)[lane] = packed(s);
    add_bytes(w, i, lane, s, operand<uint32_t>(w, i, 2, lane));
    if (count > s.pending || (i->immediate & drops && count > s.expected))
      fail(w, i, LaunchStatus::illegal_instruction,
           "mbarrier: " + std::to_string(count) + " arrivals where " + std::to_string(s.pending) +
               " are missing",
           lane);
    s.pending -= count;
    if (i->immediate & drops)
      s.expected -= count;
    if (i->immediate & completes_nothing && s.pending == 0 && s.bytes == 0)
      fail(w, i, LaunchStatus::illegal_instruction, "mbarrier.arrive.noComplete completes the phase", lane);
    if (w.block->checks)
      w.block->checks->arrive_at_mbarrier(w, i, lane, address, i->order & releases);
    settle(w, address, s);
  }
  return i + 1;
}

const Instruction *expect_bytes(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t address = operand<uint64_t>(w, i, 0, lane);
    State s = load(w, i, lane, address);
    add_bytes(w, i, lane, s, i->immediate * int64_t{operand<uint32_t>(w, i, 1, lane)});
    if (w.block->checks)
      w.block->checks->arrive_at_mbarrier(w, i, lane, address, false);
    settle(w, address, s);
  }
  return i + 1;
}

void complete_bytes(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint64_t bytes) {
  State s = load(w, i, lane, address);
  add_bytes(w, i, lane, s, -static_cast<int64_t>(bytes));
  settle(w, address, s);
}

void add_arrival(Warp &w, const Instruction *i, uint32_t lane, uint64_t address) {
  State s = load(w, i, lane, address);
  if (s.pending == most)
    fail(w, i, LaunchStatus::illegal_instruction, "an mbarrier with more than 2^20 - 1 arrivals to come",
         lane);
  ++s.pending;
  store(address, s);
}

void arrive_once(Warp &w, const Instruction *i, uint32_t lane, uint64_t address) {
  State s = load(w, i, lane, address);
  if (s.pending == 0)
    fail(w, i, LaunchStatus::illegal_instruction, "mbarrier: 1 arrivals where 0 are missing", lane);
  --s.pending;
  if (w.block->checks)
    w.block->checks->arrive_at_mbarrier(w, i, lane, address, true);
  settle(w, address, s);
}

const Instruction *test_wait(Warp &w, const Instruction *i) {
  uint64_t asked = 0; // by the lane before
  for (uint32_t missing = w.block->pending ? w.active & ~answers(w, i, w.active) : 0; missing;
       missing &= missing - 1) {
    uint64_t address = operand<uint64_t>(w, i, 0, first_lane(missing));
    if (address != asked)
      w.block->pending->finish_if_asked_before(address);
    asked = address;
  }
  put_answers(w, i, w.active);
  return i + 1;
}

const Instruction *try_wait(Warp &w, const Instruction *i) {
  uint32_t missing = w.active & ~answers(w, i, w.active);
  if (!missing) {
    put_answers(w, i, w.active);
    return w.go_to(i + 1);
  }
  const Instruction *stopped = w.wait_at_barrier(i, waits_for_mbarrier);
  w.waiting.back().awaited = {operand<uint64_t>(w, i, 0, first_lane(missing)), put_answers, describe};
  return stopped;
}

} // namespace emulator::mbarrier
