// ld and st, of one element or a vector, from every state space. Whole-warp contiguous and uniform accesses
// are found first and cost one check; the rest goes lane by lane.
#include "exec/operations/access.hpp"
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

// M: element in memory, R: register. A signed M is extended with its sign.
template <typename M, typename R> const Instruction *load(Warp &w, const Instruction *i) {
  Addresses at;
  u32 count = i->extra_count;
  u32 bytes = sizeof(M) * count;
  Access access = prepare(w, i, at, bytes, false);
  const uint32_t *offsets = count == 1 ? &i->destination : w.program->extra.data() + i->extra;
  for (u32 e = 0; e < count; ++e) {
    if (offsets[e] == no_offset)
      continue;
    R *d = w.row<R>(offsets[e]);
    if (access.pattern == Pattern::contiguous) {
      const M *m = reinterpret_cast<const M *>(at.address[0]) + e;
      if (access.lanes == lanes_per_warp && count == 1) {
        EACH_LANE(l) d[l] = static_cast<R>(m[l]);
      } else {
        for (u32 l = 0; l < access.lanes; ++l)
          d[l] = static_cast<R>(m[l * count]);
      }
    } else if (access.pattern == Pattern::uniform) {
      R value = static_cast<R>(read<M>(at.address[access.first] + e * sizeof(M)));
      Output<R> out(w, offsets[e]);
      R *row = out.row;
      EACH_LANE(l) row[l] = value;
      out.store();
    } else if (w.active == ~u32{0}) {
      for (u32 l = 0; l < lanes_per_warp; ++l)
        d[l] = static_cast<R>(read<M>(at.address[l] + e * sizeof(M)));
    } else {
      for (u32 lanes = w.active; lanes; lanes &= lanes - 1) {
        u32 l = static_cast<u32>(__builtin_ctz(lanes));
        d[l] = static_cast<R>(read<M>(at.address[l] + e * sizeof(M)));
      }
    }
  }
  return i + 1;
}

template <typename M, typename R> const Instruction *store(Warp &w, const Instruction *i) {
  Addresses at;
  u32 count = i->extra_count;
  u32 bytes = sizeof(M) * count;
  Access access = prepare(w, i, at, bytes, true);
  const uint32_t *offsets = count == 1 ? &i->b : w.program->extra.data() + i->extra;
  for (u32 e = 0; e < count; ++e) {
    const R *s = w.row<R>(offsets[e]);
    if (access.pattern == Pattern::contiguous) {
      M *m = reinterpret_cast<M *>(at.address[0]) + e;
      if (access.lanes == lanes_per_warp && count == 1) {
        EACH_LANE(l) m[l] = static_cast<M>(s[l]);
      } else {
        for (u32 l = 0; l < access.lanes; ++l)
          m[l * count] = static_cast<M>(s[l]);
      }
    } else {
      // Lanes that write to one place do so in order: the highest wins.
      if (w.active == ~u32{0}) {
        for (u32 l = 0; l < lanes_per_warp; ++l)
          write<M>(at.address[l] + e * sizeof(M), static_cast<M>(s[l]));
        continue;
      }
      for (u32 lanes = w.active; lanes; lanes &= lanes - 1) {
        u32 l = static_cast<u32>(__builtin_ctz(lanes));
        write<M>(at.address[l] + e * sizeof(M), static_cast<M>(s[l]));
      }
    }
  }
  return i + 1;
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
  return i + 1;
}

template <typename M, typename R> void add_pair(OperationTable &t) {
  std::string suffix = "." + std::string(ptx::name_of(type_of<M>)) + "." + std::to_string(8 * sizeof(R));
  t.add("ld" + suffix, {load<M, R>, type_of<R>, {}, 0});
  t.add("ld.param" + suffix, {load_parameter<M, R>, type_of<R>, {}, 0});
  if constexpr (std::is_unsigned_v<M>)
    t.add("st" + suffix, {store<M, R>, ptx::Type::none, {}, 0});
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
