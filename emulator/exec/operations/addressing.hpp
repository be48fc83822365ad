// Addresses of a memory instruction, per lane, the recognition of whole-warp patterns, and the counters of
// memory.
#pragma once

#include "exec/machine/block.hpp"
#include "exec/operations/access.hpp"
#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct Addresses {
  alignas(64) u64 address[lanes_per_warp];
};

inline const u8 *launch_parameters(const Warp &w) { return w.parameters; }

// Bit l: no lower lane has the value of lane l. Values are less than 2^32 - 1.
inline u32 first_of_each(const u32 *values) {
  alignas(64) u32 padded[2 * lanes_per_warp];
  alignas(64) u32 again[lanes_per_warp] = {};
  EACH_LANE(l) padded[l] = ~u32{0};
  EACH_LANE(l) padded[lanes_per_warp + l] = values[l];
  for (u32 distance = 1; distance < lanes_per_warp; ++distance) {
    const u32 *lower = padded + lanes_per_warp - distance;
    EACH_LANE(l) again[l] |= lower[l] == values[l] ? 1u : 0u;
  }
  u32 bits = 0;
  EACH_LANE(l) bits |= again[l] ? 0 : u32{1} << l;
  return bits;
}

// Passes over the 32 banks of 4 bytes. Accesses of 8 bytes are served by half-warps and of 16 bytes by
// quarter-warps. Lanes that read or write one word share a pass; atomic operations on one word take one each.
inline u32 count_wavefronts(const Reach &r, u32 bytes, bool atomic) {
  u32 unit = bytes < 4 ? 4 : bytes < 16 ? bytes : 16;
  u32 parts = unit / 4, part_lanes = lanes_per_warp / parts;
  if (!atomic) {
    if (r.pattern == Pattern::contiguous)
      return (r.lanes + part_lanes - 1) / part_lanes;
    if (r.pattern == Pattern::uniform || (parts == 1 && r.span <= 128 && r.lowest % 4 == 0)) {
      u32 used = 0;
      for (u32 p = 0; p < parts; ++p)
        used += (r.active >> (p * part_lanes) & static_cast<u32>((u64{1} << part_lanes) - 1)) != 0;
      return used;
    }
  }
  alignas(64) u32 place[lanes_per_warp];
  u32 low = static_cast<u32>(r.lowest % 128);
  u32 uniform = r.pattern == Pattern::uniform;
  u32 contiguous = r.pattern == Pattern::contiguous;
  for (u32 l = 0; l < lanes_per_warp; ++l)
    place[l] = (low + (uniform ? 0 : contiguous ? l * bytes : r.offset[l])) / unit;
  u32 total = 0;
  for (u32 p = 0; p < parts; ++p) {
    u32 mask = static_cast<u32>((u64{1} << part_lanes) - 1) << (p * part_lanes);
    u32 lanes = r.active & mask;
    if (lanes == 0)
      continue;
    if (!atomic) {
      // Lanes of other parts, and inactive ones, must not stand for lanes of this one.
      alignas(64) u32 own[lanes_per_warp];
      u32 first = place[__builtin_ctz(lanes)];
      for (u32 l = 0; l < lanes_per_warp; ++l)
        own[l] = lanes >> l & 1 ? place[l] : first;
      u32 firsts = first_of_each(own);
      // The value of the first active lane may have been put into an inactive one below it.
      bool moved = (firsts & ~lanes) != 0;
      lanes &= firsts;
      if (moved)
        lanes |= u32{1} << __builtin_ctz(r.active & mask);
    }
    u8 in_bank[lanes_per_warp] = {};
    u8 most = 0;
    for (; lanes; lanes &= lanes - 1) {
      u8 now = ++in_bank[place[__builtin_ctz(lanes)] % part_lanes];
      most = now > most ? now : most;
    }
    total += most;
  }
  return total;
}

// Distinct sectors of 32 bytes. An aligned access of up to 32 bytes lies in one.
inline u32 count_sectors(const Reach &r, u64 lowest) {
  alignas(64) u32 sector[lanes_per_warp];
  u64 low = lowest % 32;
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
  return back == 0 ? steps + 1 : static_cast<u32>(__builtin_popcount(first_of_each(sector)));
}

inline void count_global(Warp &w, const Reach &r, u64 lowest, u32 bytes, AccessKind kind) {
  GlobalCounters &c = w.counters->global[static_cast<size_t>(kind)];
  u64 asked = u64{bytes} * r.lanes;
  u64 sectors = r.pattern == Pattern::uniform      ? 1
                : r.pattern == Pattern::contiguous ? (lowest + asked - 1) / 32 - lowest / 32 + 1
                                                   : count_sectors(r, lowest);
  u64 least = (asked + 31) / 32;
  c.requests += 1;
  c.bytes += asked;
  c.sectors += sectors;
  c.least_sectors += least < sectors ? least : sectors;
}

inline void count_shared(Warp &w, Reach &r, u32 bytes, AccessKind kind) {
  SharedCounters &c = w.counters->shared[static_cast<size_t>(kind)];
  bool atomic = kind == AccessKind::atomic;
  u32 &known = atomic ? r.wavefronts_of_atomic : r.wavefronts;
  if (known == 0)
    known = count_wavefronts(r, bytes, atomic);
  u32 parts = bytes <= 4 ? 1 : bytes >= 16 ? 4 : 2;
  u32 needed = 1;
  if (parts > 1) {
    u32 part_lanes = lanes_per_warp / parts;
    needed = 0;
    for (u32 p = 0; p < parts; ++p)
      needed += (r.active >> (p * part_lanes) & static_cast<u32>((u64{1} << part_lanes) - 1)) != 0;
  }
  c.requests += 1;
  c.bytes += u64{bytes} * r.lanes;
  c.wavefronts += known;
  c.bank_conflicts += known - needed;
}

// Finds the pattern of the lanes' addresses in the row of `i`. Addresses that are too far apart for offsets
// go to `at`.
template <typename Row>
inline void find_pattern(Warp &w, const Instruction *i, Reach &r, Addresses &at, u32 bytes, u64 window,
                         u64 stride) {
  const Row *a = w.row<Row>(i->a);
  u32 active = w.active;
  bool whole = active == ~u32{0};
  r.active = active;
  r.bytes = bytes;
  r.first = static_cast<u32>(__builtin_ctz(active));
  r.lanes = static_cast<u32>(__builtin_popcount(active));
  r.wavefronts = r.wavefronts_of_atomic = 0;
  r.offset_bits = 0;
  Row a0 = a[r.first];
  if (stride == 0) {
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
    if (differs == 0) {
      r.pattern = Pattern::uniform;
      r.span = bytes;
      return;
    }
    if (gaps == 0 && low_lanes) {
      r.pattern = Pattern::contiguous;
      r.span = u64{bytes} * r.lanes;
      return;
    }
  }
  alignas(64) s64 apart[lanes_per_warp];
  u64 too_far = 0;
  EACH_LANE(l) {
    s64 d = static_cast<s64>(u64{a[l]} - u64{a0}) +
            (static_cast<s64>(l) - static_cast<s64>(r.first)) * static_cast<s64>(stride);
    d = active >> l & 1 ? d : 0;
    apart[l] = d;
    too_far |= (static_cast<u64>(d) + (u64{1} << 30)) >> 31;
  }
  u64 origin = a0 + window + r.first * stride;
  if (too_far) {
    r.pattern = Pattern::far_apart;
    EACH_LANE(l) at.address[l] = origin + static_cast<u64>(apart[l]);
    return;
  }
  s32 least = 0, most = 0;
  EACH_LANE(l) {
    s32 d = static_cast<s32>(apart[l]);
    least = d < least ? d : least;
    most = d > most ? d : most;
  }
  u32 bits = 0;
  EACH_LANE(l) {
    r.offset[l] = static_cast<u32>(static_cast<s32>(apart[l]) - least);
    bits |= r.offset[l];
  }
  r.offset_bits = bits;
  r.lowest = origin + static_cast<u64>(static_cast<s64>(least));
  r.span = static_cast<u64>(static_cast<s64>(most) - least) + bytes;
  r.pattern = Pattern::scattered;
  if (!whole)
    return;
  u32 differs = 0, gaps = 0;
  for (u32 p = 0; p < lanes_per_warp; p += 8)
    for (u32 l = p; l < p + 8; ++l) {
      differs |= r.offset[l] ^ r.offset[p];
      gaps |= r.offset[l] ^ (r.offset[p] + (l - p) * bytes);
    }
  if (differs == 0)
    r.pattern = Pattern::pieces_uniform;
  else if (gaps == 0)
    r.pattern = Pattern::pieces_contiguous;
}

inline void find_own(Warp &w, const Instruction *i, Reach &r) {
  r.own_least = ~u64{0};
  r.own_most = 0;
  for (u32 lanes = r.active; lanes; lanes &= lanes - 1) {
    u32 l = static_cast<u32>(__builtin_ctz(lanes));
    u64 own = i->wide_address ? w.row<u64>(i->a)[l] : w.row<u32>(i->a)[l];
    r.own_least = own < r.own_least ? own : r.own_least;
    r.own_most = own > r.own_most ? own : r.own_most;
  }
}

inline void find_reach(Warp &w, const Instruction *i, Reach &r, Addresses &at, u32 bytes) {
  u64 window = 0, stride = 0;
  if (i->space == ptx::Space::shared) {
    window = w.shared_base;
  } else if (i->space == ptx::Space::local) {
    window = w.local_base;
    stride = w.local_stride;
  }
  if (i->wide_address)
    find_pattern<u64>(w, i, r, at, bytes, window, stride);
  else
    find_pattern<u32>(w, i, r, at, bytes, window, stride);
  if (stride)
    find_own(w, i, r);
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
// touched, and counts. A checker of more than bounds (uninitialised reads, races in shared memory) would be
// called here, for `reach` holds all that it needs, behind one test of a flag of the launch.
//
// Bounds are those of the block's shared or the warp's local memory, or of what this instruction touched the
// last time. Only memory that outlives the block is ever remembered.
inline Reach &reach(Warp &w, const Instruction *i, Reach &fresh, Addresses &at, u32 bytes, AccessKind kind) {
  Reach *found = &fresh;
  if (i->slot != 0) {
    ReachSlots &slots = w.worker->reach;
    found = &slots.slot[i->slot - 1];
    u32 bit = u32{1} << i->slot;
    if (!i->slot_begins && (slots.known & bit) && found->active == w.active && found->bytes == bytes) {
      // As the first instruction left it.
    } else {
      find_reach(w, i, *found, at, bytes);
      if (found->pattern == Pattern::far_apart)
        slots.known &= ~bit;
      else
        slots.known |= bit;
    }
  } else {
    find_reach(w, i, fresh, at, bytes);
  }
  Reach &r = *found;
  bool write = kind != AccessKind::load;
  if (r.pattern == Pattern::far_apart) {
    for (u32 lanes = r.active; lanes; lanes &= lanes - 1)
      at.address[__builtin_ctz(lanes)] += static_cast<u64>(i->immediate);
    check_lanes(w, i, r, at.address, bytes, write);
    if (i->space == ptx::Space::global || i->space == ptx::Space::generic)
      emulator::count_global(w, at.address, r.active, bytes, kind);
    return r;
  }
  u64 lowest = r.lowest + static_cast<u64>(i->immediate);
  bool generic = i->space == ptx::Space::generic;
  u64 base, end;
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
  }
#ifdef EMULATOR_UNCHECKED
  (void)base, (void)end, (void)write;
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
  if (shared)
    count_shared(w, r, bytes, kind);
  else if (i->space == ptx::Space::global || (generic && !local))
    count_global(w, r, lowest, bytes, kind);
  return r;
}

// For accesses that take the lanes one by one: the address of each active lane, checked and counted.
inline void prepare(Warp &w, const Instruction *i, Addresses &at, u32 bytes, AccessKind kind) {
  Reach fresh;
  const Reach &r = reach(w, i, fresh, at, bytes, kind);
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

inline void prepare(Warp &w, const Instruction *i, Addresses &at, u32 bytes, bool is_write) {
  prepare(w, i, at, bytes, is_write ? AccessKind::store : AccessKind::load);
}

} // namespace

} // namespace emulator::EMULATOR_ISA
