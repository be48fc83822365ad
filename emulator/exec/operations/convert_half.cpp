// cvt to and from f16, bf16, their pairs, and tf32.
#include "exec/operations/convert_functions.hpp"
#include "exec/operations/narrow_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// In Instruction::immediate.
constexpr int64_t flushes = 1, saturates = 2, clamps_negative = 4, stays_finite = 8, ties_away = 16;

constexpr bool names(std::string_view modifiers, std::string_view modifier) {
  return modifiers.find(modifier) != std::string_view::npos;
}
int64_t flags_of(std::string_view modifiers) {
  bool finite = names(modifiers, ".satfinite");
  return (names(modifiers, ".ftz") ? flushes : 0) | (finite ? stays_finite : 0) |
         (names(modifiers, ".relu") ? clamps_negative : 0) |
         (names(modifiers, ".sat") && !finite ? saturates : 0) | (names(modifiers, ".rna") ? ties_away : 0);
}

// The value in a type of the processor that rounds to the same half as the value itself.
inline f32 carried(f32 a) { return a; }
inline f64 carried(f64 a) { return a; }
inline f32 carried(f16 a) { return widen(a); }
inline f32 carried(bf16 a) { return widen(a); }
inline f32 carried(u8 a) { return a; }
inline f32 carried(s8 a) { return a; }
inline f32 carried(u16 a) { return a; }
inline f32 carried(s16 a) { return a; }
// Unsigned rows may be converted by differences, which give -0 when the rounding is down.
inline f64 carried(u32 a) { return AbsoluteFloat::apply<f64>(a); }
inline f64 carried(s32 a) { return a; }
// More digits than f64 has: what falls away sets the last kept bit.
inline f64 carried(u64 a) {
  bool fits = a >> 53 == 0;
  u64 kept = fits ? a : a >> 11 | ((a & 0x7ff) != 0);
  return static_cast<f64>(static_cast<s64>(kept)) * (fits ? 1.0 : 2048.0);
}
inline f64 carried(s64 a) {
  u64 magnitude = a < 0 ? u64{0} - static_cast<u64>(a) : static_cast<u64>(a);
  return a < 0 ? -carried(magnitude) : carried(magnitude);
}

template <typename R> u16 finished(R a, int64_t flags) {
  a = flags & saturates ? saturate_half(a) : a;
  a = flags & clamps_negative ? relu(a) : a;
  return a.bits;
}

template <typename R, typename A> const Instruction *to_half(Warp &w, const Instruction *i) {
  Output<R> out(w, i->destination);
  R *d = out.row;
  const A *a = w.row<A>(i->a);
  Rounding rounding = i->rounding;
  int64_t flags = i->immediate;
  if (flags == 0 && rounding == Rounding::nearest) {
    EACH_LANE(l) d[l] = narrow<R>(carried(a[l]));
  } else {
    for (u32 l = 0; l < lanes_per_warp; ++l) {
      A source = a[l];
      if constexpr (std::is_same_v<A, f32>)
        source = flags & flushes ? flush(source) : source;
      d[l] = R{finished(narrow<R>(carried(source), rounding, flags & stays_finite), flags)};
    }
  }
  out.store();
  return i + 1;
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
template <typename R> const Instruction *to_pair(Warp &w, const Instruction *i) {
  Output<u32> out(w, i->destination);
  u32 *d = out.row;
  const f32 *a = w.row<f32>(i->a);
  const f32 *b = w.row<f32>(i->b);
  Rounding rounding = i->rounding;
  int64_t flags = i->immediate;
  if (flags == 0 && rounding == Rounding::nearest) {
    EACH_LANE(l) d[l] = u32{narrow<R>(a[l]).bits} << 16 | narrow<R>(b[l]).bits;
  } else {
    auto half = [&](f32 x) { return finished(narrow<R>(x, rounding, flags & stays_finite), flags); };
    for (u32 l = 0; l < lanes_per_warp; ++l)
      d[l] = u32{half(a[l])} << 16 | half(b[l]);
  }
  out.store();
  return i + 1;
}

// cvt.rs.f16x2.f32 d, a, b, c: the upper half of c rounds a, the lower one b, with as many bits as a normal
// number of the format loses.
template <typename H> u16 rounded_by_bits(f32 x, u32 random, int64_t flags) {
  constexpr u32 bits = Layout<f32>::fraction_bits - Layout<H>::fraction_bits;
  u32 code = code_by_bits<H>(x, random & ((u32{1} << bits) - 1), bits, infinity_of<H>);
  code = flags & stays_finite && code == infinity_of<H> ? code - 1 : code;
  code |= bit_cast<u32>(x) >> 16 & 0x8000;
  return is_number(x) ? finished(H{static_cast<u16>(code)}, flags) : nan_bits;
}
template <typename H> const Instruction *to_pair_by_bits(Warp &w, const Instruction *i) {
  Output<u32> out(w, i->destination);
  const f32 *a = w.row<f32>(i->a);
  const f32 *b = w.row<f32>(i->b);
  const u32 *c = w.row<u32>(i->c);
  int64_t flags = i->immediate;
  for (u32 l = 0; l < lanes_per_warp; ++l)
    out.row[l] = u32{rounded_by_bits<H>(a[l], c[l] >> 16, flags)} << 16 |
                 rounded_by_bits<H>(b[l], c[l] & 0xffff, flags);
  out.store();
  return i + 1;
}

// tf32: an f32 whose last 13 bits are zero.
const Instruction *to_tf32(Warp &w, const Instruction *i) {
  Output<u32> out(w, i->destination);
  const u32 *a = w.row<u32>(i->a);
  int64_t flags = i->immediate;
  bool nearest = i->rounding == Rounding::nearest;
  for (u32 l = 0; l < lanes_per_warp; ++l) {
    u32 magnitude = a[l] & 0x7fffffff, sign = a[l] & 0x80000000;
    u32 addend = flags & ties_away ? 0x1000 : nearest ? 0xfff + (magnitude >> 13 & 1) : 0;
    u32 result = (magnitude + addend) & 0x7fffe000;
    result = magnitude >= 0x7f800000 ? magnitude : result;
    result = flags & stays_finite && result >= 0x7f800000 ? 0x7f7fe000 : result;
    result = flags & clamps_negative && sign ? 0 : result | sign;
    out.row[l] = magnitude > 0x7f800000 ? 0x7fffffff : result;
  }
  out.store();
  return i + 1;
}

template <typename F> struct Widened {
  template <typename R, typename A> static R apply(A a) { return F::template apply<R>(widen(a)); }
};
// To an integer that stays a half.
template <typename Round> struct HalfToIntegral {
  template <typename R, typename A> static R apply(A a) {
    return narrow<R>(ToIntegral<Round, false, false>::template apply<f32>(widen(a)));
  }
};
template <typename Round> struct HalfToIntegralSaturating {
  template <typename R, typename A> static R apply(A a) {
    return saturate_half(HalfToIntegral<Round>::template apply<R>(a));
  }
};

template <typename R, typename A> void enter_to_half(OperationTable &t, const char *modifiers) {
  t.add("cvt" + std::string(modifiers) + pair_of<R, A>(),
        {to_half<R, A>, type_of<R>, {type_of<A>}, 1, flags_of(modifiers)});
}
template <typename R, typename... A>
void enter_all_to_half(OperationTable &t, const char *modifiers, Types<A...>) {
  (enter_to_half<R, A>(t, modifiers), ...);
}
template <typename R> void enter_to_pair(OperationTable &t, const char *modifiers, ptx::Type type) {
  t.add("cvt" + std::string(modifiers) + "." + std::string(ptx::name_of(type)) + ".f32",
        {to_pair<R>, type, {ptx::Type::f32, ptx::Type::f32}, 2, flags_of(modifiers)});
}
template <typename H, typename... I>
void half_to_integers(OperationTable &t, const std::string &modifiers, Types<I...>) {
  (enter<Widened<ToInteger<RoundNearest, false>>, I, H>(t, ".rni" + modifiers), ...);
  (enter<Widened<ToInteger<RoundZero, false>>, I, H>(t, ".rzi" + modifiers), ...);
  (enter<Widened<ToInteger<RoundDown, false>>, I, H>(t, ".rmi" + modifiers), ...);
  (enter<Widened<ToInteger<RoundUp, false>>, I, H>(t, ".rpi" + modifiers), ...);
}
template <bool Flush, bool Saturate, typename H, typename... R>
void half_to_float(OperationTable &t, const std::string &modifiers, Types<R...>) {
  (enter<Widened<ToFloat<Flush, Saturate>>, R, H>(t, modifiers), ...);
}
} // namespace

void add_convert_half(OperationTable &t) {
  using Integers = Types<u8, s8, u16, s16, u32, s32, u64, s64>;
#define TO_HALF(modifiers, result, ...) enter_all_to_half<result>(t, modifiers, Types<__VA_ARGS__>{});
#define TO_PAIR(modifiers, half) enter_to_pair<half>(t, modifiers, type_of<PairOf<half>::type>);
#define TO_PAIR_BY_BITS(modifiers, half)                                                                     \
  t.add("cvt.rs" modifiers "." #half "x2.f32", {to_pair_by_bits<half>,                                       \
                                                type_of<half##x2>,                                           \
                                                {ptx::Type::f32, ptx::Type::f32, ptx::Type::b32},            \
                                                3,                                                           \
                                                flags_of(modifiers)});
#define TO_TF32(modifiers)                                                                                   \
  t.add("cvt" modifiers ".tf32.f32", {to_tf32, ptx::Type::b32, {ptx::Type::f32}, 1, flags_of(modifiers)});
#define HALF_TO_INTEGERS(modifiers, half) half_to_integers<half>(t, modifiers, Integers{});
#define HALF_TO_FLOAT(modifiers, half, ...)                                                                  \
  half_to_float<names(modifiers, ".ftz"), names(modifiers, ".sat"), half>(t, modifiers, Types<__VA_ARGS__>{});
#define HALF_TO_INTEGRAL(modifiers, function, half)                                                          \
  enter<function<RoundNearest>, half, half>(t, ".rni" modifiers);                                            \
  enter<function<RoundZero>, half, half>(t, ".rzi" modifiers);                                               \
  enter<function<RoundDown>, half, half>(t, ".rmi" modifiers);                                               \
  enter<function<RoundUp>, half, half>(t, ".rpi" modifiers);
#include "exec/operations/operations.def"
}

} // namespace emulator::EMULATOR_ISA
