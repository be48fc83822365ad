// cvt between integers, f32 and f64; moves between widths.
#include "exec/operations/convert_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

template <typename R, typename A> void integer_pair(OperationTable &t) {
  enter<Convert, R, A>(t, "");
  // Only where a value might not fit.
  constexpr bool wider = sizeof(R) > sizeof(A) && (std::is_signed_v<R> || std::is_unsigned_v<A>);
  if constexpr (!wider && !std::is_same_v<R, A>)
    enter<ConvertSaturating, R, A>(t, ".sat");
}
template <typename A, typename... R> void integers_from(OperationTable &t, Types<R...>) {
  (integer_pair<R, A>(t), ...);
}
template <typename... A> void integers(OperationTable &t, Types<A...> all) {
  (integers_from<A>(t, all), ...);
}

template <typename R, typename A> void float_to_integer(OperationTable &t) {
  auto both = [&](const std::string &form, auto round) {
    using Round = decltype(round);
    // Saturation is what happens anyway.
    for (const char *suffix : {"", ".sat"}) {
      enter<ToInteger<Round, false>, R, A>(t, form + suffix);
      if constexpr (std::is_same_v<A, f32>)
        enter<ToInteger<Round, true>, R, A>(t, form + ".ftz" + suffix);
    }
  };
  both(".rni", RoundNearest{});
  both(".rzi", RoundZero{});
  both(".rmi", RoundDown{});
  both(".rpi", RoundUp{});
}
template <typename F, typename... I> void between(OperationTable &t, Types<I...>) {
  (float_to_integer<I, F>(t), ...);
  (enter<ToFloat<false, false>, F, I>(t, ""), ...);
  (enter<ToFloat<false, true>, F, I>(t, ".sat"), ...);
  if constexpr (std::is_same_v<F, f32>) { // no integer makes a subnormal number
    (enter<ToFloat<false, false>, F, I>(t, ".ftz"), ...);
    (enter<ToFloat<false, true>, F, I>(t, ".ftz.sat"), ...);
  }
}

template <typename R, typename A> void float_to_float(OperationTable &t) {
  enter<ToFloat<false, false>, R, A>(t, "");
  enter<ToFloat<false, true>, R, A>(t, ".sat");
  if constexpr (std::is_same_v<R, f32> || std::is_same_v<A, f32>) {
    enter<ToFloat<true, false>, R, A>(t, ".ftz");
    enter<ToFloat<true, true>, R, A>(t, ".ftz.sat");
  }
  if constexpr (std::is_same_v<R, A>) {
    auto both = [&](const std::string &form, auto round) {
      using Round = decltype(round);
      enter<ToIntegral<Round, false, false>, R, A>(t, form);
      enter<ToIntegral<Round, false, true>, R, A>(t, form + ".sat");
      if constexpr (std::is_same_v<A, f32>) {
        enter<ToIntegral<Round, true, false>, R, A>(t, form + ".ftz");
        enter<ToIntegral<Round, true, true>, R, A>(t, form + ".ftz.sat");
      }
    };
    both(".rni", RoundNearest{});
    both(".rzi", RoundZero{});
    both(".rmi", RoundDown{});
    both(".rpi", RoundUp{});
  }
}

// Moves between widths: what lies in a register that is wider than the instruction's type.
template <typename R, typename A> void resize(OperationTable &t) {
  t.add("resize" + pair_of<R, A>(), {unary<Convert, R, A>, type_of<R>, {type_of<A>}, 1});
}
template <typename A> void resizes_from(OperationTable &t) {
  resize<u8, A>(t), resize<u16, A>(t), resize<u32, A>(t), resize<u64, A>(t);
}

// mov.b32 {a, b}: `Parts` in a row, the first in the low bits. Further operands are in Program::extra.
template <typename Whole, typename Part> const Instruction *pack(Warp &w, const Instruction *i) {
  constexpr u32 parts = sizeof(Whole) / sizeof(Part);
  Output<Whole> out(w, i->destination);
  const uint32_t *offsets = w.program->extra.data() + i->extra;
  alignas(64) Whole values[lanes_per_warp] = {};
  for (u32 p = 0; p < parts; ++p) {
    const Part *part = w.row<Part>(offsets[p]);
    EACH_LANE(l)
    values[l] = static_cast<Whole>(values[l] | static_cast<Whole>(part[l]) << (8 * sizeof(Part) * p));
  }
  Whole *d = out.row;
  EACH_LANE(l) d[l] = values[l];
  out.store();
  return i + 1;
}
template <typename Whole, typename Part> const Instruction *unpack(Warp &w, const Instruction *i) {
  constexpr u32 parts = sizeof(Whole) / sizeof(Part);
  alignas(64) Whole values[lanes_per_warp];
  std::memcpy(values, w.row<Whole>(i->a), sizeof values);
  const uint32_t *offsets = w.program->extra.data() + i->extra;
  for (u32 p = 0; p < parts; ++p) {
    if (offsets[p] == no_offset)
      continue;
    Output<Part> out(w, offsets[p]);
    Part *d = out.row;
    EACH_LANE(l) d[l] = static_cast<Part>(values[l] >> (8 * sizeof(Part) * p));
    out.store();
  }
  return i + 1;
}
template <typename Whole, typename Part> void add_packing(OperationTable &t) {
  constexpr u32 parts = sizeof(Whole) / sizeof(Part);
  std::string suffix = std::to_string(8 * sizeof(Whole)) + "x" + std::to_string(parts);
  t.add("pack." + suffix, {pack<Whole, Part>, type_of<Whole>, {type_of<Part>}, 1});
  t.add("unpack." + suffix, {unpack<Whole, Part>, type_of<Part>, {type_of<Whole>}, 1});
}

} // namespace

void add_convert(OperationTable &t) {
#define BETWEEN_INTEGERS(...) integers(t, Types<__VA_ARGS__>{});
#define FLOAT_AND_INTEGERS(type, ...) between<type>(t, Types<__VA_ARGS__>{});
#define FLOAT_TO_FLOAT(result, source) float_to_float<result, source>(t);
#include "exec/operations/operations.def"
  resizes_from<u8>(t), resizes_from<u16>(t), resizes_from<u32>(t), resizes_from<u64>(t);
  resizes_from<s8>(t), resizes_from<s16>(t), resizes_from<s32>(t);
  add_packing<u16, u8>(t);
  add_packing<u32, u16>(t), add_packing<u32, u8>(t);
  add_packing<u64, u32>(t), add_packing<u64, u16>(t), add_packing<u64, u8>(t);
}

} // namespace emulator::EMULATOR_ISA
