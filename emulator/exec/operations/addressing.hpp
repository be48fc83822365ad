// Addresses of a memory instruction, per lane, the recognition of whole-warp patterns, and their check.
#pragma once

#include "exec/access/access.hpp"
#include "exec/access/access_costs.hpp"
#include "exec/access/touched.hpp"
#include "exec/operations/counting.hpp"
#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct Addresses {
  alignas(64) u64 address[lanes_per_warp];
};

inline const u8 *launch_parameters(const Warp &w) { return w.parameters; }

// The pattern of lanes whose offsets are known, and are neither the same nor side by side.
inline void name_pieces(Reach &r, u32 offset_bits, u32 bytes) {
  r.offset_bits = offset_bits;
  r.pattern = Pattern::scattered;
  u32 step = r.offset[1] - r.offset[0];
  if (r.active != ~u32{0} || (step != 0 && step != bytes))
    return;
  u32 differs = 0;
  for (u32 p = 0; p < lanes_per_warp; p += lanes_of_piece)
    for (u32 l = 0; l < lanes_of_piece; ++l)
      differs |= r.offset[p + l] ^ (r.offset[p] + l * step);
  if (differs == 0)
    r.pattern = step == 0 ? Pattern::pieces_uniform : Pattern::pieces_contiguous;
}

// Finds the pattern of the lanes' addresses in the row of `i`. Addresses that are too far apart for offsets
// go to `at`.
template <typename Row, bool Strides>
[[gnu::noinline]] void find_pattern(Warp &w, const Instruction *i, Reach &r, Addresses &at, u32 bytes,
                                    u64 window) {
  u64 stride = Strides ? w.local_stride : 0;
  const Row *a = w.row<Row>(i->a);
  u32 active = w.active;
  bool whole = active == ~u32{0};
  r.active = active;
  r.bytes = bytes;
  r.first = static_cast<u32>(__builtin_ctz(active));
  r.lanes = static_cast<u32>(__builtin_popcount(active));
  r.cost[0].requests = r.cost[1].requests = 0;
  r.checked = 0;
  r.offset_bits = 0;
  Row a0 = a[r.first];
  if (!Strides) {
    bool low_lanes = (active & (active + 1)) == 0;
    Row differs = 0, gaps = 0;
    if (whole) {
      // The last lane says which of the two it may be.
      if (a[lanes_per_warp - 1] == a0) {
        EACH_LANE(l) differs |= a[l] ^ a0;
        gaps = 1;
      } else if (a[lanes_per_warp - 1] == static_cast<Row>(a0 + (lanes_per_warp - 1) * bytes)) {
        EACH_LANE(l) gaps |= a[l] ^ static_cast<Row>(a0 + l * bytes);
        differs = 1;
      } else {
        differs = gaps = 1;
      }
    } else {
      for (u32 l = 0; l < lanes_per_warp; ++l) {
        Row on = static_cast<Row>(0) - static_cast<Row>(active >> l & 1);
        differs |= (a[l] ^ a0) & on;
        gaps |= (a[l] ^ static_cast<Row>(a0 + l * bytes)) & on;
      }
    }
    r.lowest = a0 + window;
    auto regular = [&](Pattern pattern, u32 step, u64 span) {
      r.pattern = pattern;
      r.span = span;
      for (u32 p = 0; p < lanes_per_warp; p += lanes_of_piece)
        r.offset[p] = p * step;
    };
    if (differs == 0)
      return regular(Pattern::uniform, 0, bytes);
    if (gaps == 0 && low_lanes)
      return regular(Pattern::contiguous, bytes, u64{bytes} * r.lanes);
  }
  u32 bits = 0;
  if constexpr (!Strides && sizeof(Row) == 4) {
    Row least = a0, most = a0;
    if (whole)
      EACH_LANE(l) {
        least = a[l] < least ? a[l] : least;
        most = a[l] > most ? a[l] : most;
      }
    u64 apart = static_cast<u64>(most) - static_cast<u64>(least);
    if (whole && apart < u64{1} << 30) {
      EACH_LANE(l) {
        r.offset[l] = static_cast<u32>(a[l]) - static_cast<u32>(least);
        bits |= r.offset[l];
      }
      r.lowest = least + window;
      r.span = apart + bytes;
      name_pieces(r, bits, bytes);
      return;
    }
  }
  u64 too_far = 0;
  auto apart = [&](u32 l) {
    u64 d = static_cast<u64>(a[l]) - static_cast<u64>(a0) +
            (u64{l} - r.first) * stride; // of a lane that is idle: 0
    return whole || (active >> l & 1) ? d : 0;
  };
  auto find_offsets = [&](auto distance) {
    EACH_LANE(l) {
      u64 d = distance(l);
      r.offset[l] = static_cast<u32>(d);
      too_far |= (d + (u64{1} << 30)) >> 31;
    }
  };
  u64 origin = a0 + window + r.first * stride;
  if (whole && !Strides)
    find_offsets([&](u32 l) { return static_cast<u64>(a[l]) - static_cast<u64>(a0); });
  else
    find_offsets(apart);
  if (too_far) {
    r.pattern = Pattern::far_apart;
    EACH_LANE(l) at.address[l] = origin + apart(l);
    return;
  }
  s32 least = 0, most = 0;
  EACH_LANE(l) {
    s32 d = static_cast<s32>(r.offset[l]);
    least = d < least ? d : least;
    most = d > most ? d : most;
  }
  EACH_LANE(l) {
    r.offset[l] -= static_cast<u32>(least);
    bits |= r.offset[l];
  }
  r.lowest = origin + static_cast<u64>(static_cast<s64>(least));
  r.span = static_cast<u64>(static_cast<s64>(most) - least) + bytes;
  name_pieces(r, bits, bytes);
}

inline void find_own(Warp &w, const Instruction *i, Reach &r) {
  s64 least = INT64_MAX, most = INT64_MIN;
  for (u32 lanes = r.active; lanes; lanes &= lanes - 1) {
    u32 l = static_cast<u32>(__builtin_ctz(lanes));
    s64 own = i->wide_address ? w.row<s64>(i->a)[l] : w.row<s32>(i->a)[l];
    least = own < least ? own : least;
    most = own > most ? own : most;
  }
  r.own_least = static_cast<u64>(least);
  r.own_most = static_cast<u64>(most);
}

inline void find_reach(Warp &w, const Instruction *i, Reach &r, Addresses &at, u32 bytes) {
  // Addresses of 32 bits inside a window wrap: an unrolled loop that runs backwards adds its offset to a row
  // of negative numbers.
  if (i->space == ptx::Space::local) {
    if (i->wide_address)
      find_pattern<u64, true>(w, i, r, at, bytes, w.local_base);
    else
      find_pattern<s32, true>(w, i, r, at, bytes, w.local_base);
    find_own(w, i, r);
    return;
  }
  bool shared = i->space == ptx::Space::shared;
  u64 window = shared ? w.shared_base : 0;
  if (i->wide_address)
    find_pattern<u64, false>(w, i, r, at, bytes, window);
  else if (shared)
    find_pattern<s32, false>(w, i, r, at, bytes, window);
  else
    find_pattern<u32, false>(w, i, r, at, bytes, window);
}

inline bool in_range(u64 base, u64 end, u64 address, u64 bytes) {
  return address >= base && address <= end && end - address >= bytes;
}

// Whether each active lane touches its own local memory, and no other thread's.
inline bool each_in_own(const Warp &w, const Reach &r, u64 lowest, u32 bytes) {
  u64 outside = 0;
  u64 step = r.pattern == Pattern::contiguous ? bytes : 0;
  bool scattered = r.pattern != Pattern::contiguous && r.pattern != Pattern::uniform;
  for (u32 l = 0; l < lanes_per_warp; ++l) {
    u64 address = lowest + (scattered ? r.offset[l] : l * step);
    u64 own = address - w.local_base - l * w.local_stride;
    outside |= (own > w.local_stride - bytes) & (r.active >> l & 1);
  }
  return outside == 0 && bytes <= w.local_stride;
}

// Finds where the lanes of `i` are, checks bounds and alignment of every active lane before anything is
// touched, and counts. What looks at every access (touched bytes, costs, checks) does so in `note_reach`,
// after one test of a flag of the launch; none counts as checked then, so that every access comes by here.
//
// Bounds are those of the block's shared or the warp's local memory, or of what this instruction touched the
// last time. Only memory that outlives the block is ever remembered.
inline Reach &reach(Warp &w, const Instruction *i, Reach &fresh, Addresses &at, u32 bytes, AccessKind kind) {
  Reach *found = &fresh;
  if (i->slot != 0) {
    ReachSlots &slots = w.worker->reach;
    found = &slots.slot[i->slot - 1];
    if (!(slots.known >> i->known_slot & 1) || found->active != w.active) {
      slots.settle(i->slot, *w.counters);
      find_reach(w, i, *found, at, bytes);
      slots.set_known(i->slot, found->pattern != Pattern::far_apart);
    }
  } else {
    find_reach(w, i, fresh, at, bytes);
  }
  Reach &r = *found;
  bool write = kind != AccessKind::load;
  if (w.launch->request->takes_notes) [[unlikely]]
    begin_cost(w, kind);
  if (r.pattern == Pattern::far_apart) {
    for (u32 lanes = r.active; lanes; lanes &= lanes - 1)
      at.address[__builtin_ctz(lanes)] += static_cast<u64>(i->immediate);
    check_lanes(w, i, r, at.address, bytes, write);
    if (i->space == ptx::Space::global || i->space == ptx::Space::generic)
      emulator::count_global(w, at.address, r.active, bytes, kind);
    if (w.launch->request->takes_notes) [[unlikely]]
      note_reach(w, i, r, at.address, bytes, kind);
    return r;
  }
  u64 lowest = r.lowest + static_cast<u64>(i->immediate);
  bool generic = i->space == ptx::Space::generic;
  u64 base, end;
  bool writable = true;
  bool shared = i->space == ptx::Space::shared, local = i->space == ptx::Space::local;
  if (generic) {
    u64 one = lowest + (r.pattern < Pattern::pieces_uniform ? 0 : r.offset[r.first]);
    shared = one - w.shared_base < w.shared_bytes;
    local = !shared && one - w.local_base < w.local_stride * lanes_per_warp;
  }
  if (shared) {
    base = w.shared_base;
    end = base + w.shared_bytes;
  } else if (local) {
    // A lane may touch what lies between its own bounds; which lane is outside, if one is, the slow check
    // says.
    base = 0;
    end = w.local_stride;
  } else {
    base = w.ranges[i->site].base;
    end = w.ranges[i->site].end;
    writable = w.ranges[i->site].writable;
  }
#ifdef EMULATOR_UNCHECKED
  (void)base, (void)end, (void)write;
  bool inside = true;
  writable = true;
#else
  bool inside = !local    ? in_range(base, end, lowest, r.span)
                : generic ? each_in_own(w, r, lowest, bytes)
                          : in_range(base, end, r.own_least + static_cast<u64>(i->immediate),
                                     r.own_most - r.own_least + bytes);
  if (!inside || ((lowest | r.offset_bits) & (bytes - 1)))
    check_lanes(w, i, r, nullptr, bytes, write);
  // Lanes in several state spaces at once count as an access to global memory; the shared memory of another
  // block is none, and what its banks make of it is not modelled.
  if (generic && !inside) {
    shared = false;
    local = is_remote_shared(w, lowest);
  }
#endif
  bool global = i->space == ptx::Space::global || (generic && !shared && !local);
  if (shared)
    count_shared(w, cost_of_shared(r, lowest, bytes, kind == AccessKind::atomic), kind);
  else if (global)
    count_global(w, r, lowest, bytes, kind);
  if (w.launch->request->takes_notes) [[unlikely]]
    note_reach(w, i, r, nullptr, bytes, kind);
  if (i->slot != 0 && inside && !w.launch->request->notes_each &&
      (shared ? kind != AccessKind::atomic && costs_alike_everywhere(r, bytes) : global)) {
    r.checked = r.active;
    r.writable = writable;
    r.is_shared = shared;
    r.origin = r.lowest - base;
    r.room = end - base - r.span;
  }
  return r;
}

// What reach() would give for one of the later accesses through a row of addresses, when nothing but its own
// offset tells it from one that was checked: the offset is checked, nothing is counted. nullptr: reach() must
// look. The members of a slot agree in width, alignment and state space.
[[gnu::always_inline]] inline const Reach *look_up_reach(Warp &w, const Instruction *i, AccessKind kind) {
  const ReachSlots &slots = w.worker->reach;
  if (!(slots.known >> i->known_slot & 1))
    return nullptr;
  const Reach &r = slots.slot[i->known_slot - 1];
  if (r.checked != w.active || (kind == AccessKind::store && !r.writable))
    return nullptr;
#ifndef EMULATOR_UNCHECKED
  if (static_cast<u64>(i->immediate) + r.origin > r.room)
    return nullptr;
#endif
  return &r;
}

inline void count_repeats([[maybe_unused]] Warp &w, [[maybe_unused]] const Instruction *i,
                          [[maybe_unused]] AccessKind kind, [[maybe_unused]] u64 times) {
#ifndef EMULATOR_UNCOUNTED
  w.worker->reach.repeats[i->known_slot - 1][kind == AccessKind::store] += times;
#endif
}

// The same, with an access to shared memory counted; one to global memory is not.
[[gnu::always_inline]] inline const Reach *known_reach(Warp &w, const Instruction *i, AccessKind kind) {
  const Reach *r = look_up_reach(w, i, kind);
  if (r && r->is_shared)
    count_repeats(w, i, kind, 1);
  return r;
}

// The address of each active lane.
inline void spread(const Instruction *i, const Reach &r, Addresses &at, u32 bytes) {
  if (r.pattern == Pattern::far_apart)
    return;
  u64 lowest = r.lowest + static_cast<u64>(i->immediate);
  switch (r.pattern) {
  case Pattern::uniform:
    EACH_LANE(l) at.address[l] = lowest;
    return;
  case Pattern::contiguous:
    EACH_LANE(l) at.address[l] = lowest + u64{l} * bytes;
    return;
  default:
    EACH_LANE(l) at.address[l] = lowest + r.offset[l];
  }
}

// For accesses that take the lanes one by one: the address of each active lane, checked and counted.
inline void prepare(Warp &w, const Instruction *i, Addresses &at, u32 bytes, AccessKind kind) {
  Reach fresh;
  spread(i, reach(w, i, fresh, at, bytes, kind), at, bytes);
}

inline void prepare(Warp &w, const Instruction *i, Addresses &at, u32 bytes, bool is_write) {
  prepare(w, i, at, bytes, is_write ? AccessKind::store : AccessKind::load);
}

} // namespace

} // namespace emulator::EMULATOR_ISA
