// ld and st, of one element or a vector, from every state space. Whole-warp contiguous and uniform accesses
// are found first and cost one check; the rest goes lane by lane.
#include "exec/access/access.hpp"
#include "exec/operations/addressing.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

template <typename M> inline M read(u64 address) {
  M value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof value);
  return value;
}
template <typename M> inline void write(u64 address, M value) {
  std::memcpy(reinterpret_cast<void *>(address), &value, sizeof value);
}

// The rows of a contiguous access with all lanes; Count elements lie side by side in memory.
template <u32 Count, typename M, typename R>
inline void load_side_by_side(Warp &w, const uint32_t *offsets, u64 from) {
  const M *m = reinterpret_cast<const M *>(from);
  for (u32 e = 0; e < Count; ++e) {
    if (offsets[e] == no_offset)
      continue;
    R *d = w.row<R>(offsets[e]);
    EACH_LANE(l) d[l] = static_cast<R>(m[l * Count + e]);
  }
}
template <u32 Count, typename M, typename R>
inline void store_side_by_side(Warp &w, const uint32_t *offsets, u64 to) {
  M *m = reinterpret_cast<M *>(to);
  const R *s[Count];
  for (u32 e = 0; e < Count; ++e)
    s[e] = w.row<R>(offsets[e]);
  EACH_LANE(l) for (u32 e = 0; e < Count; ++e) m[l * Count + e] = static_cast<M>(s[e][l]);
}

// One element of each lane at addresses that are regular, all lanes active.
template <typename M, typename R>
[[gnu::always_inline]] inline void load_whole_row(R *d, const Reach &r, u64 lowest) {
  constexpr u32 part = lanes_at_once<R>;
  switch (r.pattern) {
  case Pattern::uniform: {
    R value = static_cast<R>(read<M>(lowest));
    EACH_LANE(l) d[l] = value;
    return;
  }
  case Pattern::contiguous: {
    const M *m = reinterpret_cast<const M *>(lowest);
    EACH_LANE(l) d[l] = static_cast<R>(m[l]);
    return;
  }
  case Pattern::pieces_uniform:
    for (u32 p = 0; p < lanes_per_warp; p += part) {
      R value = static_cast<R>(read<M>(lowest + r.offset[p]));
      put_lanes(d + p, [=](u32) { return value; });
    }
    return;
  default: // pieces_contiguous
    for (u32 p = 0; p < lanes_per_warp; p += part) {
      typedef M InMemory __attribute__((vector_size(part * sizeof(M))));
      typedef R InRow __attribute__((vector_size(part * sizeof(R))));
      InMemory m;
      std::memcpy(&m, reinterpret_cast<const void *>(lowest + r.offset[p]), sizeof m);
      InRow row = __builtin_convertvector(m, InRow);
      std::memcpy(d + p, &row, sizeof row);
    }
  }
}

// Vectors, and lanes of which some are idle or far apart (`far`: their addresses).
template <typename M, typename R>
[[gnu::noinline]] void load_any(Warp &w, const Instruction *i, const Reach &r, const u64 *far) {
  u32 count = i->extra_count;
  u32 bytes = sizeof(M) * count;
  u64 lowest = r.lowest + static_cast<u64>(i->immediate);
  const uint32_t *offsets = count == 1 ? &i->destination : w.program->extra.data() + i->extra;
  if (r.pattern == Pattern::contiguous && r.lanes == lanes_per_warp) {
    switch (count) {
    case 2:
      load_side_by_side<2, M, R>(w, offsets, lowest);
      return;
    case 4:
      load_side_by_side<4, M, R>(w, offsets, lowest);
      return;
    default:
      break;
    }
  }
  for (u32 e = 0; e < count; ++e, lowest += sizeof(M)) {
    if (offsets[e] == no_offset)
      continue;
    R *d = w.row<R>(offsets[e]);
    if (r.pattern == Pattern::contiguous) {
      for (u32 l = 0; l < r.lanes; ++l)
        d[l] = static_cast<R>(read<M>(lowest + l * bytes));
    } else if (r.pattern == Pattern::far_apart) {
      for (u32 lanes = r.active; lanes; lanes &= lanes - 1) {
        u32 l = static_cast<u32>(__builtin_ctz(lanes));
        d[l] = static_cast<R>(read<M>(far[l] + e * sizeof(M)));
      }
    } else if (r.pattern == Pattern::uniform) {
      R value = static_cast<R>(read<M>(lowest));
      Output<R> out(w, offsets[e]);
      R *row = out.row;
      EACH_LANE(l) row[l] = value;
      out.store();
    } else {
      // Offsets of idle lanes are those of the first active one.
      Output<R> out(w, offsets[e]);
      for (u32 p = 0; p < lanes_per_warp; p += lanes_at_once<R>)
        put_lanes(out.row + p, [&](u32 l) { return static_cast<R>(read<M>(lowest + r.offset[p + l])); });
      out.store();
    }
  }
}

inline bool is_whole_row(const Instruction *i, const Reach &r) {
  return i->extra_count == 1 && r.active == ~u32{0} && r.pattern < Pattern::scattered;
}

// M: element in memory, R: register. A signed M is extended with its sign.
template <typename M, typename R>
[[gnu::always_inline]] inline void load_rows(Warp &w, const Instruction *i, const Reach &r, const u64 *far) {
  if (is_whole_row(i, r))
    load_whole_row<M>(w.row<R>(i->destination), r, r.lowest + static_cast<u64>(i->immediate));
  else
    load_any<M, R>(w, i, r, far);
}

template <typename M, typename R> [[gnu::noinline]] void load_new(Warp &w, const Instruction *i) {
  Addresses at;
  Reach fresh;
  const Reach &r = reach(w, i, fresh, at, sizeof(M) * i->extra_count, AccessKind::load);
  if (r.pattern == Pattern::contiguous && i->space != ptx::Space::shared) {
    // The next warp will mostly read what comes next, many instructions from now.
    u64 next = r.lowest + static_cast<u64>(i->immediate) + r.span;
    __builtin_prefetch(reinterpret_cast<const void *>(next));
    __builtin_prefetch(reinterpret_cast<const void *>(next + 64));
  }
  load_rows<M, R>(w, i, r, at.address);
}

template <typename M, typename R> [[gnu::noinline]] const Instruction *load(Warp &w, const Instruction *i) {
  load_new<M, R>(w, i);
  return follow(w, i);
}

template <typename M, typename R>
[[gnu::noinline]] const Instruction *load_counted(Warp &w, const Instruction *i, const Reach &r) {
  if (!r.is_shared)
    count_global(w, r, r.lowest + static_cast<u64>(i->immediate), sizeof(M) * i->extra_count,
                 AccessKind::load);
  load_rows<M, R>(w, i, r, nullptr);
  return follow(w, i);
}

// Everything but the most frequent access is another function, so that this one needs no frame on the stack.
template <typename M, typename R> const Instruction *load_known(Warp &w, const Instruction *i) {
  const Reach *r = known_reach(w, i, AccessKind::load);
  if (!r)
    return load<M, R>(w, i);
  if (!r->is_shared || !is_whole_row(i, *r))
    return load_counted<M, R>(w, i, *r);
  load_whole_row<M>(w.row<R>(i->destination), *r, r->lowest + static_cast<u64>(i->immediate));
  return follow(w, i);
}

// Lanes that write to one place do so in order: the highest wins.
template <typename M, typename R>
[[gnu::noinline]] void store_rows(Warp &w, const Instruction *i, const Reach &r, const u64 *far) {
  u32 count = i->extra_count;
  u32 bytes = sizeof(M) * count;
  u64 lowest = r.lowest + static_cast<u64>(i->immediate);
  const uint32_t *offsets = count == 1 ? &i->b : w.program->extra.data() + i->extra;
  if (r.pattern == Pattern::contiguous && r.lanes == lanes_per_warp) {
    switch (count) {
    case 1:
      store_side_by_side<1, M, R>(w, offsets, lowest);
      return;
    case 2:
      store_side_by_side<2, M, R>(w, offsets, lowest);
      return;
    case 4:
      store_side_by_side<4, M, R>(w, offsets, lowest);
      return;
    default:
      break;
    }
  }
  for (u32 e = 0; e < count; ++e, lowest += sizeof(M)) {
    const R *s = w.row<R>(offsets[e]);
    switch (r.pattern) {
    case Pattern::uniform:
      write<M>(lowest, static_cast<M>(s[31 - __builtin_clz(r.active)]));
      break;
    case Pattern::contiguous:
      for (u32 l = 0; l < r.lanes; ++l)
        write<M>(lowest + l * bytes, static_cast<M>(s[l]));
      break;
    case Pattern::far_apart:
      for (u32 lanes = r.active; lanes; lanes &= lanes - 1) {
        u32 l = static_cast<u32>(__builtin_ctz(lanes));
        write<M>(far[l] + e * sizeof(M), static_cast<M>(s[l]));
      }
      break;
    default:
      if (r.active == ~u32{0}) {
        for (u32 l = 0; l < lanes_per_warp; ++l)
          write<M>(lowest + r.offset[l], static_cast<M>(s[l]));
      } else {
        for (u32 lanes = r.active; lanes; lanes &= lanes - 1) {
          u32 l = static_cast<u32>(__builtin_ctz(lanes));
          write<M>(lowest + r.offset[l], static_cast<M>(s[l]));
        }
      }
    }
  }
}

template <typename M, typename R> [[gnu::noinline]] void store_new(Warp &w, const Instruction *i) {
  Addresses at;
  Reach fresh;
  const Reach &r = reach(w, i, fresh, at, sizeof(M) * i->extra_count, AccessKind::store);
  store_rows<M, R>(w, i, r, at.address);
}

template <typename M, typename R> [[gnu::noinline]] const Instruction *store(Warp &w, const Instruction *i) {
  store_new<M, R>(w, i);
  return follow(w, i);
}

template <typename M, typename R>
[[gnu::noinline]] const Instruction *store_counted(Warp &w, const Instruction *i, const Reach &r) {
  if (!r.is_shared)
    count_global(w, r, r.lowest + static_cast<u64>(i->immediate), sizeof(M) * i->extra_count,
                 AccessKind::store);
  store_rows<M, R>(w, i, r, nullptr);
  return follow(w, i);
}

template <typename M, typename R> const Instruction *store_known(Warp &w, const Instruction *i) {
  const Reach *r = known_reach(w, i, AccessKind::store);
  return r ? store_counted<M, R>(w, i, *r) : store<M, R>(w, i);
}

// A parameter of the kernel at a fixed place: the same for all lanes.
template <typename M, typename R> const Instruction *load_parameter(Warp &w, const Instruction *i) {
  const u8 *bytes = launch_parameters(w) + i->immediate;
  u32 count = i->extra_count;
  const uint32_t *offsets = count == 1 ? &i->destination : w.program->extra.data() + i->extra;
  for (u32 e = 0; e < count; ++e) {
    if (offsets[e] == no_offset)
      continue;
    M value;
    std::memcpy(&value, bytes + e * sizeof(M), sizeof value);
    Output<R> out(w, offsets[e]);
    R *row = out.row;
    R wide = static_cast<R>(value);
    EACH_LANE(l) row[l] = wide;
    out.store();
  }
  return follow(w, i);
}

template <typename M, typename R> void add_pair(OperationTable &t) {
  std::string suffix = "." + std::string(ptx::name_of(type_of<M>)) + "." + std::to_string(8 * sizeof(R));
  t.add("ld" + suffix, {load<M, R>, type_of<R>, {}, 0, 0, load_known<M, R>});
  t.add("ld.param" + suffix, {load_parameter<M, R>, type_of<R>, {}, 0});
  if constexpr (std::is_unsigned_v<M>)
    t.add("st" + suffix, {store<M, R>, ptx::Type::none, {}, 0, 0, store_known<M, R>});
}

} // namespace

void add_memory(OperationTable &t) {
  add_pair<u8, u8>(t), add_pair<u8, u16>(t), add_pair<u8, u32>(t), add_pair<u8, u64>(t);
  add_pair<s8, u8>(t), add_pair<s8, u16>(t), add_pair<s8, u32>(t), add_pair<s8, u64>(t);
  add_pair<u16, u16>(t), add_pair<u16, u32>(t), add_pair<u16, u64>(t);
  add_pair<s16, u16>(t), add_pair<s16, u32>(t), add_pair<s16, u64>(t);
  add_pair<u32, u32>(t), add_pair<u32, u64>(t);
  add_pair<s32, u32>(t), add_pair<s32, u64>(t);
  add_pair<u64, u64>(t);
}

} // namespace emulator::EMULATOR_ISA
