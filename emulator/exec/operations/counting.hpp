// What an access counts as: sectors of global memory, passes over the banks of shared memory.
#pragma once

#include "exec/access/access.hpp"
#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// A set of at most 32 numbers.
struct FewNumbers {
  // False when the number was there already.
  bool add(u32 value) {
    u32 at = value * 0x9e3779b1u >> 26;
    for (; taken >> at & 1; at = (at + 1) % 64)
      if (number[at] == value)
        return false;
    taken |= u64{1} << at;
    number[at] = value;
    return true;
  }
  u64 taken = 0; // bit n: number[n] is one of the set
  u32 number[64];
};

// Passes over the 32 banks of 4 bytes. Accesses of 8 bytes are served by half-warps and of 16 bytes by
// quarter-warps. Lanes that read or write one word share a pass; atomic operations on one word take one each.
[[gnu::noinline]] u32 count_wavefronts(const Reach &r, u64 lowest, u32 bytes, bool atomic) {
  u32 unit = bytes < 4 ? 4 : bytes < 16 ? bytes : 16;
  u32 parts = unit / 4, part_lanes = lanes_per_warp / parts;
  if (!atomic) {
    if (r.pattern == Pattern::contiguous)
      return (r.lanes + part_lanes - 1) / part_lanes;
    if (r.pattern == Pattern::uniform || (parts == 1 && r.span <= 128 && lowest % 4 == 0)) {
      u32 used = 0;
      for (u32 p = 0; p < parts; ++p)
        used += (r.active >> (p * part_lanes) & static_cast<u32>((u64{1} << part_lanes) - 1)) != 0;
      return used;
    }
  }
  alignas(64) u32 place[lanes_per_warp];
  u32 low = static_cast<u32>(lowest % 128);
  u32 unit_shift = static_cast<u32>(__builtin_ctz(unit));
  u32 uniform = r.pattern == Pattern::uniform;
  u32 contiguous = r.pattern == Pattern::contiguous;
  for (u32 l = 0; l < lanes_per_warp; ++l)
    place[l] = (low + (uniform ? 0 : contiguous ? l * bytes : r.offset[l])) >> unit_shift;
  auto most_of = [](const u8(&in_bank)[lanes_per_warp]) {
    u8 most = 0;
    for (u8 passes : in_bank)
      most = passes > most ? passes : most;
    return most;
  };
  if (atomic && parts == 1 && r.active == ~u32{0}) {
    u8 in_bank[lanes_per_warp] = {};
    for (u32 l = 0; l < lanes_per_warp; ++l)
      ++in_bank[place[l] % lanes_per_warp];
    return most_of(in_bank);
  }
  u32 total = 0;
  for (u32 p = 0; p < parts; ++p) {
    u32 mask = static_cast<u32>((u64{1} << part_lanes) - 1) << (p * part_lanes);
    u32 first[lanes_per_warp]; // the first word of each bank; `others` holds those that came after it
    FewNumbers others;
    u8 in_bank[lanes_per_warp] = {};
    for (u32 lanes = r.active & mask; lanes; lanes &= lanes - 1) {
      u32 mine = place[__builtin_ctz(lanes)];
      u32 bank = mine & (part_lanes - 1);
      if (atomic || in_bank[bank] == 0)
        first[bank] = mine, ++in_bank[bank];
      else if (first[bank] != mine)
        in_bank[bank] += others.add(mine);
    }
    total += most_of(in_bank);
  }
  return total;
}

// Distinct sectors of 32 bytes. An aligned access of up to 32 bytes lies in one.
[[gnu::noinline]] u32 count_sectors(Warp &w, const Reach &r, u64 lowest) {
  u64 low = lowest % 32;
  if (r.pattern == Pattern::pieces_uniform || r.pattern == Pattern::pieces_contiguous) {
    u64 span = r.bytes * (r.pattern == Pattern::pieces_uniform ? 1 : lanes_of_piece);
    u64 count = 0, end = 0; // the sector after the last one so far
    bool ascending = true;
    for (u32 p = 0; p < lanes_per_warp; p += lanes_of_piece) {
      u64 first = (low + r.offset[p]) / 32, last = (low + r.offset[p] + span - 1) / 32;
      ascending &= first + 1 >= end;
      count += last + 1 - (first < end ? end : first);
      end = last + 1;
    }
    if (ascending)
      return static_cast<u32>(count);
  }
  alignas(64) u32 sector[lanes_per_warp];
  u32 back = 0, steps = 0;
  u32 start = static_cast<u32>((low + r.offset[r.first]) / 32);
  EACH_LANE(l) {
    u32 mine = static_cast<u32>((low + r.offset[l]) / 32);
    sector[l] = r.active >> l & 1 ? mine : start;
  }
  for (u32 l = 1; l < lanes_per_warp; ++l) {
    back |= sector[l] < sector[l - 1] ? 1u : 0u;
    steps += sector[l] != sector[l - 1] ? 1u : 0u;
  }
  if (back == 0)
    return steps + 1;
  u32 distinct = 0;
  if (r.span < marked_sectors * 32) { // one more may be touched than the span is long
    u64 *marks = w.worker->sector_marks;
    for (u32 l = 0; l < lanes_per_warp; ++l) {
      u64 &word = marks[sector[l] / 64];
      u64 mark = u64{1} << (sector[l] % 64);
      distinct += (word & mark) == 0;
      word |= mark;
    }
    for (u32 l = 0; l < lanes_per_warp; ++l)
      marks[sector[l] / 64] = 0;
    return distinct;
  }
  FewNumbers seen;
  for (u32 l = 0; l < lanes_per_warp; ++l)
    distinct += seen.add(sector[l]);
  return distinct;
}

inline void count_global([[maybe_unused]] Warp &w, [[maybe_unused]] const Reach &r,
                         [[maybe_unused]] u64 lowest, [[maybe_unused]] u32 bytes,
                         [[maybe_unused]] AccessKind kind) {
#ifndef EMULATOR_UNCOUNTED
  GlobalCounters &c = w.counters->global[static_cast<size_t>(kind)];
  u64 asked = u64{bytes} * r.lanes;
  u64 sectors = r.pattern == Pattern::uniform      ? 1
                : r.pattern == Pattern::contiguous ? (lowest + asked - 1) / 32 - lowest / 32 + 1
                                                   : count_sectors(w, r, lowest);
  u64 least = (asked + 31) / 32;
  c.requests += 1;
  c.bytes += asked;
  c.sectors += sectors;
  c.least_sectors += least < sectors ? least : sectors;
#endif
}

// Whether what an access costs stays the same when all lanes move by the same distance, aligned as its width
// asks: a bank is 4 bytes of 128, so only lanes that may share a word in part tell one place from another.
inline bool costs_alike_everywhere(const Reach &r, u32 bytes) {
  return bytes >= 4 || r.pattern == Pattern::uniform || r.pattern == Pattern::contiguous;
}

// What one access to the block's own shared memory from `lowest` on costs; found once for all the offsets at
// which it is the same.
inline const SharedCounters &cost_of_shared(Reach &r, u64 lowest, u32 bytes, bool atomic) {
  SharedCounters &cost = r.cost[atomic];
#ifdef EMULATOR_UNCOUNTED
  (void)lowest, (void)bytes;
  return cost;
#endif
  if (cost.requests != 0 && costs_alike_everywhere(r, bytes))
    return cost;
  u32 parts = bytes <= 4 ? 1 : bytes >= 16 ? 4 : 2;
  u32 needed = 1;
  if (parts > 1) {
    u32 part_lanes = lanes_per_warp / parts;
    needed = 0;
    for (u32 p = 0; p < parts; ++p)
      needed += (r.active >> (p * part_lanes) & static_cast<u32>((u64{1} << part_lanes) - 1)) != 0;
  }
  cost.requests = 1;
  cost.bytes = u64{bytes} * r.lanes;
  bool side_by_side = r.pattern == Pattern::uniform || r.pattern == Pattern::contiguous;
  cost.wavefronts = side_by_side && parts == 1 && !atomic ? 1 : count_wavefronts(r, lowest, bytes, atomic);
  cost.bank_conflicts = cost.wavefronts - needed;
  return cost;
}

inline void count_shared([[maybe_unused]] Warp &w, [[maybe_unused]] const SharedCounters &cost,
                         [[maybe_unused]] AccessKind kind) {
#ifndef EMULATOR_UNCOUNTED
  SharedCounters &c = w.counters->shared[static_cast<size_t>(kind)];
  c.requests += cost.requests;
  c.bytes += cost.bytes;
  c.wavefronts += cost.wavefronts;
  c.bank_conflicts += cost.bank_conflicts;
#endif
}

} // namespace

} // namespace emulator::EMULATOR_ISA
