// Addresses of a memory instruction, per lane, and the recognition of whole-warp patterns.
#pragma once

#include "exec/operations/access.hpp"
#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct Addresses {
  alignas(64) u64 address[lanes_per_warp];
};

inline const u8 *launch_parameters(const Warp &w) { return w.parameters; }

inline void compute_addresses(Warp &w, const Instruction *i, Addresses &at) {
  u64 base = static_cast<u64>(i->immediate);
  u64 stride = 0;
  if (i->space == ptx::Space::shared) {
    base += w.shared_base;
  } else if (i->space == ptx::Space::local) {
    base += w.local_base;
    stride = w.local_stride;
  }
  if (i->wide_address) {
    const u64 *a = w.row<u64>(i->a);
    EACH_LANE(l) at.address[l] = a[l] + base + l * stride;
  } else {
    const u32 *a = w.row<u32>(i->a);
    EACH_LANE(l) at.address[l] = a[l] + base + l * stride;
  }
}

// What the fast checks compare with: the block's shared or the warp's local memory, or what this instruction
// touched the last time. Only memory that outlives the block is ever cached.
struct Bounds {
  CachedRange range;
  bool is_global;
};
inline Bounds bounds_for(const Warp &w, const Instruction *i, u64 address) {
  CachedRange shared{w.shared_base, w.shared_base + w.shared_bytes};
  CachedRange local{w.local_base, w.local_base + w.local_stride * lanes_per_warp};
  bool generic = i->space == ptx::Space::generic;
  if (i->space == ptx::Space::shared || (generic && address - shared.base < shared.end - shared.base))
    return {shared, false};
  if (i->space == ptx::Space::local || (generic && address - local.base < local.end - local.base))
    return {local, false};
  return {w.ranges[i->site], i->space == ptx::Space::global || generic};
}

inline bool in_cached_range(const CachedRange &range, u64 address, u64 bytes) {
  return address >= range.base && address - range.base <= range.end - range.base &&
         range.end - address >= bytes;
}

// Whether all 32 lanes are aligned and in `range`.
inline bool all_within(const Addresses &at, const CachedRange &range, u32 bytes) {
  if (range.end - range.base < bytes)
    return false;
  u64 base = range.base, last = range.end - range.base - bytes;
  u64 outside = 0, low_bits = 0;
  EACH_LANE(l) {
    outside |= at.address[l] - base > last ? 1 : 0;
    low_bits |= at.address[l];
  }
  return outside == 0 && (low_bits & (bytes - 1)) == 0;
}

// Computes the addresses and checks every active lane's bounds and alignment before anything is touched.
inline Access prepare(Warp &w, const Instruction *i, Addresses &at, u32 bytes, bool is_write) {
  compute_addresses(w, i, at);
  u32 active = w.active;
  u32 first = static_cast<u32>(__builtin_ctz(active));
  u64 a0 = at.address[first];
  u64 differs = 0, gaps = 0;
  bool low_lanes = (active & (active + 1)) == 0;
  u32 lanes = active == ~u32{0} ? lanes_per_warp : static_cast<u32>(__builtin_ctz(~active));
  if (active == ~u32{0}) {
    EACH_LANE(l) {
      differs |= at.address[l] ^ a0;
      gaps |= at.address[l] ^ (a0 + u64{l} * bytes);
    }
  } else {
    for (u32 l = 0; l < lanes_per_warp; ++l) {
      u64 on = 0 - u64{active >> l & 1};
      differs |= (at.address[l] ^ a0) & on;
      gaps |= (at.address[l] ^ (a0 + u64{l} * bytes)) & on;
    }
  }
  Access access{Pattern::scattered, first, lanes, false};
  if (differs == 0)
    access.pattern = Pattern::uniform;
  else if (gaps == 0 && low_lanes)
    access.pattern = Pattern::contiguous;
  auto [cached, global] = bounds_for(w, i, a0);
  if (access.pattern != Pattern::scattered) {
    u64 span = access.pattern == Pattern::uniform ? bytes : u64{bytes} * lanes;
    if (a0 & (bytes - 1))
      misaligned(w, i, first, a0, bytes);
    if (!in_cached_range(cached, a0, span)) {
      for (u32 rest = active; rest; rest &= rest - 1) {
        u32 l = static_cast<u32>(__builtin_ctz(rest));
        check_access(w, i, l, at.address[l], bytes, is_write);
      }
    }
    if (global)
      count_global_range(w, a0, a0 + span,
                         access.pattern == Pattern::uniform ? u64{bytes} * w.active_lanes() : span, is_write);
    return access;
  }
  if (active != ~u32{0} || !all_within(at, cached, bytes)) {
    for (u32 rest = active; rest; rest &= rest - 1) {
      u32 l = static_cast<u32>(__builtin_ctz(rest));
      u64 address = at.address[l];
      if (address & (bytes - 1))
        misaligned(w, i, l, address, bytes);
      if (!in_cached_range(cached, address, bytes))
        check_access(w, i, l, address, bytes, is_write);
    }
  }
  if (global)
    count_global(w, at.address, active, bytes, is_write);
  return access;
}

} // namespace

} // namespace emulator::EMULATOR_ISA
