// Operations across the lanes of a warp: shfl, vote, match, redux, elect, activemask. The .sync forms name
// the lanes that take part and wait until all of those are there. Lanes that run together may name different
// sets, each its own: the tiles of a warp do.
#include "exec/block/block.hpp"
#include "exec/operations/float_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

inline u32 first_lane(u32 lanes) { return static_cast<u32>(__builtin_ctz(lanes)); }

// Lanes named that are still alive but not here: the group has to wait for them.
inline bool must_wait(const Warp &w, u32 named) { return (named & w.live & ~w.active) != 0; }

// The lanes of `lanes` that name what its first lane names.
inline u32 lanes_that_agree(const u32 *masks, u32 lanes) {
  u32 same = 0, named = masks[first_lane(lanes)];
  for (; lanes; lanes &= lanes - 1)
    same |= static_cast<u32>(masks[first_lane(lanes)] == named) << first_lane(lanes);
  return same;
}

// True when every lane finds those that it names among the active ones.
inline bool all_are_here(const Warp &w, const u32 *masks) {
  for (u32 rest = w.active; rest; rest &= ~lanes_that_agree(masks, rest)) {
    u32 named = masks[first_lane(rest)];
    if (must_wait(w, named))
      return false;
    if ((rest & ~named) == 0)
      break;
  }
  return true;
}

// What the active lanes name, once they go on together.
inline void note_masks(Warp &w, const Instruction *i, const u32 *masks) {
  if (w.block->checks) [[unlikely]]
    w.block->checks->join(w, i, masks);
}

// Calls `then` with w.active, and with the members, being one set of lanes that name each other, for each
// such set. When not all of them are complete, the sets part: each waits for its own members and for no
// other.
template <typename F>
const Instruction *for_each_set(Warp &w, const Instruction *i, const u32 *masks, F then) {
  u32 named = masks[first_lane(w.active)];
  if (w.active & ~named) { // else the first lane names all of them, so they agree
    if (all_are_here(w, masks)) {
      note_masks(w, i, masks);
      u32 group = w.active;
      for (u32 rest = group; rest; rest &= ~w.active) {
        w.active = lanes_that_agree(masks, rest);
        u32 members = masks[first_lane(w.active)] & w.active;
        then(members ? members : w.active);
      }
      w.active = group;
      return i + 1;
    }
    u32 others = w.current.lanes & ~lanes_that_agree(masks, w.active);
    if (others)
      w.split_off(others, i);
  }
  if (must_wait(w, named))
    return w.wait_for_lanes(i, named);
  note_masks(w, i, masks);
  u32 members = named & w.active;
  then(members ? members : w.active);
  return i + 1;
}

// Offsets: a value, b lane or distance, c clamp and segment mask, extra member mask or none; immediate: the
// offset of the predicate result plus one, 0 for none.
enum class Shuffle { up, down, butterfly, index };
template <Shuffle Mode> void shuffle_active(Warp &w, const Instruction *i) {
  alignas(64) u32 value[lanes_per_warp];
  std::memcpy(value, w.row<u32>(i->a), sizeof value);
  const u32 *b = w.row<u32>(i->b);
  const u32 *c = w.row<u32>(i->c);
  alignas(64) u32 from[lanes_per_warp];
  u32 valid = 0;
  EACH_LANE(l) {
    u32 distance = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    u32 low = l & segment;
    u32 high = low | (clamp & ~segment);
    s32 source;
    bool in_range;
    if (Mode == Shuffle::up) {
      source = static_cast<s32>(l) - static_cast<s32>(distance);
      in_range = source >= static_cast<s32>(high);
    } else if (Mode == Shuffle::down) {
      source = static_cast<s32>(l + distance);
      in_range = source <= static_cast<s32>(high);
    } else if (Mode == Shuffle::butterfly) {
      source = static_cast<s32>(l ^ distance);
      in_range = source <= static_cast<s32>(high);
    } else {
      source = static_cast<s32>(low | (distance & ~segment));
      in_range = source <= static_cast<s32>(high);
    }
    from[l] = in_range ? static_cast<u32>(source) & 31 : l;
    valid |= in_range ? u32{1} << l : 0;
  }
  if (i->destination != no_offset) {
    Output<u32> out(w, i->destination);
    for (u32 p = 0; p < lanes_per_warp; p += lanes_at_once<u32>)
      put_lanes(out.row + p, [&](u32 l) { return value[from[p + l]]; });
    out.store();
  }
  if (i->immediate != 0) {
    u32 &p = w.predicate(static_cast<u32>(i->immediate - 1));
    p = blend_bits(p, valid, w.active);
  }
}

template <Shuffle Mode> const Instruction *shuffle(Warp &w, const Instruction *i) {
  // No set reads of another, so all can go at once.
  if (i->extra != no_offset && !all_are_here(w, w.row<u32>(i->extra)))
    return for_each_set(w, i, w.row<u32>(i->extra), [&](u32) { shuffle_active<Mode>(w, i); });
  if (i->extra != no_offset)
    note_masks(w, i, w.row<u32>(i->extra));
  shuffle_active<Mode>(w, i);
  return i + 1;
}

// b: member mask, or no_offset for the forms without .sync.
template <typename F> const Instruction *with_members(Warp &w, const Instruction *i, F then) {
  if (i->b != no_offset)
    return for_each_set(w, i, w.row<u32>(i->b), then);
  then(w.active);
  return i + 1;
}

inline void put_predicate(Warp &w, u32 offset, bool value) {
  u32 &p = w.predicate(offset);
  p = blend_bits(p, value ? ~u32{0} : 0, w.active);
}
inline void put_all(Warp &w, u32 offset, u32 value) {
  Output<u32> out(w, offset);
  EACH_LANE(l) out.row[l] = value;
  out.store();
}

const Instruction *vote_all(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 m) { put_predicate(w, i->destination, (w.predicate(i->a) & m) == m); });
}
const Instruction *vote_any(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 m) { put_predicate(w, i->destination, (w.predicate(i->a) & m) != 0); });
}
const Instruction *vote_uni(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 m) {
    u32 on = w.predicate(i->a) & m;
    put_predicate(w, i->destination, on == 0 || on == m);
  });
}
const Instruction *vote_ballot(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 m) { put_all(w, i->destination, w.predicate(i->a) & m); });
}
const Instruction *activemask(Warp &w, const Instruction *i) {
  put_all(w, i->destination, w.active);
  return i + 1;
}
// d|p: the lowest member, and a predicate that is true in it.
const Instruction *elect(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 m) {
    u32 leader = m ? first_lane(m) : 0;
    if (i->destination != no_offset)
      put_all(w, i->destination, leader);
    u32 &p = w.predicate(i->c);
    p = blend_bits(p, u32{1} << leader, w.active);
  });
}
const Instruction *warp_barrier(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 members) {
    if (w.block->checks) [[unlikely]]
      w.block->checks->warp_barrier(w, members);
  });
}

template <typename T> const Instruction *match_any(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 members) {
    alignas(64) T value[lanes_per_warp];
    std::memcpy(value, w.row<T>(i->a), sizeof value);
    u32 *d = w.row<u32>(i->destination);
    for (u32 lanes = w.active; lanes; lanes &= lanes - 1) {
      u32 l = first_lane(lanes), same = 0;
      for (u32 m = members; m; m &= m - 1)
        same |= static_cast<u32>(value[first_lane(m)] == value[l]) << first_lane(m);
      d[l] = same;
    }
  });
}
template <typename T> const Instruction *match_all(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 members) {
    const T *value = w.row<T>(i->a);
    bool same = true;
    for (u32 m = members; m; m &= m - 1)
      same &= value[first_lane(m)] == value[first_lane(members)];
    put_all(w, i->destination, same ? members : 0);
    if (i->c != no_offset)
      put_predicate(w, i->c, same);
  });
}

struct Sum {
  template <typename T> static T apply(T a, T b) {
    return static_cast<T>(static_cast<u32>(a) + static_cast<u32>(b));
  }
};
struct Minimum {
  template <typename T> static T apply(T a, T b) { return a < b ? a : b; }
};
struct Maximum {
  template <typename T> static T apply(T a, T b) { return a > b ? a : b; }
};
struct AllBits {
  template <typename T> static T apply(T a, T b) { return a & b; }
};
struct AnyBits {
  template <typename T> static T apply(T a, T b) { return a | b; }
};
struct OddBits {
  template <typename T> static T apply(T a, T b) { return a ^ b; }
};
template <typename F, typename T> const Instruction *reduce(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 members) {
    const T *value = w.row<T>(i->a);
    T result = value[first_lane(members)];
    for (u32 m = members & (members - 1); m; m &= m - 1)
      result = F::template apply<T>(result, value[first_lane(m)]);
    put_all(w, i->destination, static_cast<u32>(result));
  });
}

// A number wins over NaN, or with .NaN the other way round.
template <typename F, bool Magnitude> const Instruction *reduce_floats(Warp &w, const Instruction *i) {
  return with_members(w, i, [&](u32 members) {
    const f32 *value = w.row<f32>(i->a);
    auto of = [&](u32 lane) { return Magnitude ? AbsoluteFloat::apply<f32>(value[lane]) : value[lane]; };
    f32 result = of(first_lane(members));
    for (u32 m = members; m; m &= m - 1)
      result = F::template apply<f32>(result, of(first_lane(m)));
    put_all(w, i->destination, bit_cast<u32>(result));
  });
}
template <typename F> void add_float_reduction(OperationTable &t, const std::string &name) {
  using ptx::Type;
  t.add("redux." + name + ".f32", {reduce_floats<F, false>, Type::f32, {Type::f32}, 1});
  t.add("redux.abs." + name + ".f32", {reduce_floats<F, true>, Type::f32, {Type::f32}, 1});
}

} // namespace

// Operand types are those of the instruction's own operands; decoding gives each mnemonic its shape.
void add_lanes(OperationTable &t) {
  using ptx::Type;
  t.add("shfl.up.b32", {shuffle<Shuffle::up>, Type::b32, {Type::b32, Type::u32, Type::u32}, 3});
  t.add("shfl.down.b32", {shuffle<Shuffle::down>, Type::b32, {Type::b32, Type::u32, Type::u32}, 3});
  t.add("shfl.bfly.b32", {shuffle<Shuffle::butterfly>, Type::b32, {Type::b32, Type::u32, Type::u32}, 3});
  t.add("shfl.idx.b32", {shuffle<Shuffle::index>, Type::b32, {Type::b32, Type::u32, Type::u32}, 3});
  t.add("vote.all.pred", {vote_all, Type::pred, {Type::pred}, 1});
  t.add("vote.any.pred", {vote_any, Type::pred, {Type::pred}, 1});
  t.add("vote.uni.pred", {vote_uni, Type::pred, {Type::pred}, 1});
  t.add("vote.ballot.b32", {vote_ballot, Type::b32, {Type::pred}, 1});
  t.add("activemask.b32", {activemask, Type::b32, {}, 0});
  t.add("elect", {elect, Type::b32, {}, 0});
  t.add("bar.warp", {warp_barrier, Type::none, {}, 0});
  t.add("match.any.b32", {match_any<u32>, Type::b32, {Type::b32}, 1});
  t.add("match.any.b64", {match_any<u64>, Type::b32, {Type::b64}, 1});
  t.add("match.all.b32", {match_all<u32>, Type::b32, {Type::b32}, 1});
  t.add("match.all.b64", {match_all<u64>, Type::b32, {Type::b64}, 1});
  t.add("redux.add.u32", {reduce<Sum, u32>, Type::u32, {Type::u32}, 1});
  t.add("redux.add.s32", {reduce<Sum, s32>, Type::s32, {Type::s32}, 1});
  t.add("redux.min.u32", {reduce<Minimum, u32>, Type::u32, {Type::u32}, 1});
  t.add("redux.min.s32", {reduce<Minimum, s32>, Type::s32, {Type::s32}, 1});
  t.add("redux.max.u32", {reduce<Maximum, u32>, Type::u32, {Type::u32}, 1});
  t.add("redux.max.s32", {reduce<Maximum, s32>, Type::s32, {Type::s32}, 1});
  add_float_reduction<MinimumFloat>(t, "min");
  add_float_reduction<MaximumFloat>(t, "max");
  add_float_reduction<MinimumOrNan>(t, "min.NaN");
  add_float_reduction<MaximumOrNan>(t, "max.NaN");
  t.add("redux.and.b32", {reduce<AllBits, u32>, Type::b32, {Type::b32}, 1});
  t.add("redux.or.b32", {reduce<AnyBits, u32>, Type::b32, {Type::b32}, 1});
  t.add("redux.xor.b32", {reduce<OddBits, u32>, Type::b32, {Type::b32}, 1});
}

} // namespace emulator::EMULATOR_ISA
