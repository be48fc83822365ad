// f16 and bf16 on scalars, by bit arithmetic and f32 or f64 of the processor: every result is the exact value
// rounded once. No instruction of the processor knows these formats, so both builds give the same bits.
#pragma once

#include <limits>

#include "exec/operations/float_functions.hpp"

#if defined(__clang__)
#define EACH_HALF(h)                                                                                         \
  _Pragma("clang loop vectorize(assume_safety)") for (uint32_t h = 0; h < 2 * lanes_per_warp; ++h)
#else
#define EACH_HALF(h) _Pragma("GCC ivdep") for (uint32_t h = 0; h < 2 * lanes_per_warp; ++h)
#endif

namespace emulator::EMULATOR_ISA {

namespace {

// A binary format inside an integer: sign, exponent, fraction.
template <typename T> struct Layout;
template <> struct Layout<f16> {
  static constexpr u32 exponent_bits = 5, fraction_bits = 10;
};
template <> struct Layout<bf16> {
  static constexpr u32 exponent_bits = 8, fraction_bits = 7;
};
template <> struct Layout<f32> {
  static constexpr u32 exponent_bits = 8, fraction_bits = 23;
};
template <> struct Layout<f64> {
  static constexpr u32 exponent_bits = 11, fraction_bits = 52;
};
template <typename T> constexpr u32 bias_of = (u32{1} << (Layout<T>::exponent_bits - 1)) - 1;
template <typename T>
constexpr std::conditional_t<std::is_same_v<T, f64>, u64, u32> infinity_of =
    ((std::conditional_t<std::is_same_v<T, f64>, u64, u32>{1} << Layout<T>::exponent_bits) - 1)
    << Layout<T>::fraction_bits;
constexpr u16 nan_bits = 0x7fff;

template <typename R> struct PairOf;
template <> struct PairOf<f16> {
  using type = f16x2;
};
template <> struct PairOf<bf16> {
  using type = bf16x2;
};

// What is added below the last kept bit before the rest is cut off; `drop` bits fall away.
template <typename U> U rounding_addend(Rounding rounding, U kept_bit, U drop, bool negative) {
  U one = 1;
  U away = (one << drop) - one;
  bool directed_away = rounding == Rounding::up ? !negative : rounding == Rounding::down && negative;
  return rounding == Rounding::nearest ? (away >> 1) + kept_bit : directed_away ? away : U{0};
}

// |x| as a code of the format T: exponent and fraction side by side. Too large gives a code of infinity or
// above, whatever the rounding. NaN gives anything.
template <typename T, typename C> bits_of<C> magnitude_code(C x, Rounding rounding) {
  using U = bits_of<C>;
  constexpr U one = 1;
  constexpr U fraction = Layout<C>::fraction_bits;
  constexpr U drop = fraction - Layout<T>::fraction_bits;
  constexpr U rebias = bias_of<C> - bias_of<T>;
  U bits = bit_cast<U>(x);
  bool negative = bits >> (8 * sizeof(C) - 1);
  U magnitude = bits & ~sign_bit<C>;
  U normal = (magnitude - (rebias << fraction) +
              rounding_addend<U>(rounding, magnitude >> drop & 1, drop, negative)) >>
             drop;
  if constexpr (rebias == 0) {
    return normal;
  } else {
    // Below the smallest normal number the exponent stays and the significand moves right.
    U exponent = magnitude >> fraction;
    U significand = (magnitude & ((one << fraction) - 1)) | (exponent ? one << fraction : 0);
    U shift = drop + rebias + 1 - (exponent ? exponent : 1);
    U most = fraction + 2;
    shift = exponent > rebias ? drop : shift > most ? most : shift;
    U subnormal =
        (significand + rounding_addend<U>(rounding, significand >> shift & 1, shift, negative)) >> shift;
    return exponent > rebias ? normal : subnormal;
  }
}

// The same for the nearest code, in few enough steps for a row at once. Only while the processor rounds to
// the nearest as well.
template <typename T, typename C> bits_of<C> nearest_code(C x) {
  using U = bits_of<C>;
  constexpr U fraction = Layout<C>::fraction_bits;
  constexpr U drop = fraction - Layout<T>::fraction_bits;
  constexpr U rebias = bias_of<C> - bias_of<T>;
  U magnitude = bit_cast<U>(x) & ~sign_bit<C>;
  U half = (U{1} << (drop - 1)) - 1;
  U normal = (magnitude - (rebias << fraction) + half + (magnitude >> drop & 1)) >> drop;
  if constexpr (rebias == 0) {
    return normal;
  } else {
    // Next to this number the digits of C end where those of a subnormal T do.
    constexpr U anchor = (rebias + 1 + drop) << fraction;
    U subnormal = bit_cast<U>(bit_cast<C>(magnitude) + bit_cast<C>(anchor)) - anchor;
    return magnitude > (rebias << fraction | ((U{1} << fraction) - 1)) ? normal : subnormal;
  }
}

// The nearest value of a half format.
template <typename R, typename C> R narrow(C x) {
  using U = bits_of<C>;
  constexpr U infinity = infinity_of<R>, infinite = U{infinity_of<C>};
  U bits = bit_cast<U>(x), magnitude = bits & ~sign_bit<C>;
  U code = nearest_code<R>(x);
  code = code < infinity && magnitude < infinite ? code : infinity;
  code |= bits >> (8 * sizeof(C) - 16) & 0x8000;
  code = magnitude > infinite ? U{nan_bits} : code;
  return R{static_cast<u16>(code)};
}
// With a rounding, and the largest number in place of infinity if `finite`.
template <typename R, typename C> R narrow(C x, Rounding rounding, bool finite) {
  using U = bits_of<C>;
  constexpr U infinity = infinity_of<R>;
  bool negative = bit_cast<U>(x) >> (8 * sizeof(C) - 1);
  U code = magnitude_code<R>(x, rounding);
  bool inward = rounding == Rounding::zero || (rounding == Rounding::up && negative) ||
                (rounding == Rounding::down && !negative);
  C magnitude = AbsoluteFloat::apply<C>(x);
  bool is_infinite = magnitude > std::numeric_limits<C>::max();
  U largest = finite || (inward && !is_infinite) ? infinity - 1 : infinity;
  code = code < infinity && !is_infinite ? code : largest;
  u16 bits = static_cast<u16>(code | (negative ? 0x8000u : 0u));
  return R{is_number(x) ? bits : nan_bits};
}

inline f32 widen(bf16 a) { return bit_cast<f32>(static_cast<u32>(u32{a.bits} << 16)); }
inline f32 widen(f16 a) {
  u32 code = a.bits & 0x7fffu;
  u32 shifted = code << 13;
  u32 normal = shifted + (u32{127 - 15} << 23);
  // Subnormal: as if the hidden bit were set, then without it. Rounding down, the difference 0 has a sign.
  f32 subnormal = bit_cast<f32>(shifted + (u32{128 - 15} << 23)) - 6.103515625e-05f; // 2^-14
  u32 bits = code < 0x0400u ? bit_cast<u32>(subnormal) & 0x7fffffffu : normal;
  bits = code >= 0x7c00u ? shifted | 0x7f800000u : bits;
  return bit_cast<f32>(bits | u32{a.bits & 0x8000u} << 16);
}

template <typename R> bool is_nan(R a) { return (a.bits & 0x7fffu) > infinity_of<R>; }

template <typename R> R flush_half(R a) {
  return R{static_cast<u16>((a.bits & infinity_of<R>) == 0 ? a.bits & 0x8000 : a.bits)};
}
// Below zero and NaN: +0.
template <typename R> R saturate_half(R a) {
  constexpr u16 one = static_cast<u16>(bias_of<R> << Layout<R>::fraction_bits);
  u16 bits = a.bits > one ? one : a.bits;
  return R{static_cast<u16>((a.bits & 0x8000) || is_nan(a) ? 0 : bits)};
}
// Negative, -0 too, becomes +0; NaN is canonical already.
template <typename R> R relu(R a) {
  return R{static_cast<u16>((a.bits & 0x8000) && !is_nan(a) ? 0 : a.bits)};
}

// One operation of f32: f32 has more than twice the digits of either format, so rounding twice rounds right.
struct AddHalf {
  template <typename R> static R apply(R a, R b) { return narrow<R>(widen(a) + widen(b)); }
};
struct SubtractHalf {
  template <typename R> static R apply(R a, R b) { return narrow<R>(widen(a) - widen(b)); }
};
struct MultiplyHalf {
  template <typename R> static R apply(R a, R b) { return narrow<R>(widen(a) * widen(b)); }
};

// a * b is exact in C. The sum is not, and is rounded to odd, so that what narrow() cuts off still tells on
// which side of a tie the exact value lies.
template <typename C> C add_to_odd(C a, C b) {
  using U = bits_of<C>;
  C sum = a + b;
  C part = sum - a;
  C rest = (a - (sum - part)) + (b - part);
  U bits = bit_cast<U>(sum);
  bool outward = (rest < 0) == (sum < 0);
  bool moves = (rest < 0 || rest > 0) && !(bits & 1);
  return bit_cast<C>(static_cast<U>(moves ? (outward ? bits + 1 : bits - 1) : bits));
}
struct FusedMultiplyAddHalf {
  template <typename R> static R apply(R a, R b, R c) {
    using C = std::conditional_t<std::is_same_v<R, f16>, f32, f64>;
    return narrow<R>(add_to_odd<C>(static_cast<C>(widen(a)) * static_cast<C>(widen(b)), widen(c)));
  }
};

struct NegateHalf {
  template <typename R> static R apply(R a) { return R{static_cast<u16>(a.bits ^ 0x8000)}; }
};
struct AbsoluteHalf {
  template <typename R> static R apply(R a) { return R{static_cast<u16>(a.bits & 0x7fff)}; }
};

// A number wins over NaN (with Nan: NaN wins), -0 is below +0.
template <bool Maximum, bool Nan> struct ExtremeHalf {
  // Integers in the order of the numbers.
  static s16 rank(u16 bits) { return static_cast<s16>(bits & 0x8000 ? bits ^ 0x7fff : bits); }
  template <typename R> static R apply(R a, R b) {
    bool first = Maximum ? rank(a.bits) > rank(b.bits) : rank(a.bits) < rank(b.bits);
    u16 bits = first ? a.bits : b.bits;
    bits = is_nan(b) ? (Nan ? nan_bits : a.bits) : bits;
    bits = is_nan(a) ? (Nan || is_nan(b) ? nan_bits : b.bits) : bits;
    return R{bits};
  }
};
using MinimumHalf = ExtremeHalf<false, false>;
using MaximumHalf = ExtremeHalf<true, false>;
using MinimumHalfOrNan = ExtremeHalf<false, true>;
using MaximumHalfOrNan = ExtremeHalf<true, true>;
// .xorsign.abs: of the magnitudes, with the product's sign.
template <typename F> struct SignedMagnitudeHalf {
  template <typename R> static R apply(R a, R b) {
    R r = F::template apply<R>(AbsoluteHalf::apply<R>(a), AbsoluteHalf::apply<R>(b));
    return R{static_cast<u16>(is_nan(r) ? r.bits : r.bits | ((a.bits ^ b.bits) & 0x8000))};
  }
};
using MinimumHalfXorsign = SignedMagnitudeHalf<MinimumHalf>;
using MaximumHalfXorsign = SignedMagnitudeHalf<MaximumHalf>;
using MinimumHalfOrNanXorsign = SignedMagnitudeHalf<MinimumHalfOrNan>;
using MaximumHalfOrNanXorsign = SignedMagnitudeHalf<MaximumHalfOrNan>;

// Approximate on a GPU: the value in f64, rounded once.
struct Exponential2Half {
  template <typename R> static R apply(R a) {
    f64 x = widen(a);
    x = x > 400.0 ? 400.0 : x;
    x = x < -400.0 ? -400.0 : x;
    R result = narrow<R>(exponential2(x));
    return R{is_nan(a) ? nan_bits : result.bits};
  }
};
struct HyperbolicTangentHalf {
  template <typename R> static R apply(R a) {
    R result = narrow<R>(hyperbolic_tangent(widen(a)));
    return R{is_nan(a) ? nan_bits : result.bits};
  }
};

// What is between the opcode and the type.
struct Plain {
  template <typename R> static R in(R a) { return a; }
  template <typename R> static R out(R a) { return a; }
};
struct Flush {
  template <typename R> static R in(R a) { return flush_half(a); }
  template <typename R> static R out(R a) { return flush_half(a); }
};
struct Saturate : Plain {
  template <typename R> static R out(R a) { return saturate_half(a); }
};
struct FlushSaturate : Flush {
  template <typename R> static R out(R a) { return saturate_half(flush_half(a)); }
};
struct Relu : Plain {
  template <typename R> static R out(R a) { return relu(a); }
};
struct FlushRelu : Flush {
  template <typename R> static R out(R a) { return relu(flush_half(a)); }
};
template <typename F, typename M> struct Adjusted {
  template <typename R> static R apply(R a) { return M::out(F::template apply<R>(M::in(a))); }
  template <typename R> static R apply(R a, R b) { return M::out(F::template apply<R>(M::in(a), M::in(b))); }
  template <typename R> static R apply(R a, R b, R c) {
    return M::out(F::template apply<R>(M::in(a), M::in(b), M::in(c)));
  }
};

// A row of pairs is a row of 64 halves, the low one of each pair first.
template <typename Pair, typename F, typename R> const Instruction *paired1(Warp &w, const Instruction *i) {
  Output<Pair> out(w, i->destination);
  R *d = reinterpret_cast<R *>(out.row);
  const R *a = w.row<R>(i->a);
  EACH_HALF(h) d[h] = F::template apply<R>(a[h]);
  out.store();
  return i + 1;
}
template <typename Pair, typename F, typename R> const Instruction *paired2(Warp &w, const Instruction *i) {
  Output<Pair> out(w, i->destination);
  R *d = reinterpret_cast<R *>(out.row);
  const R *a = w.row<R>(i->a);
  const R *b = w.row<R>(i->b);
  EACH_HALF(h) d[h] = F::template apply<R>(a[h], b[h]);
  out.store();
  return i + 1;
}
template <typename Pair, typename F, typename R> const Instruction *paired3(Warp &w, const Instruction *i) {
  Output<Pair> out(w, i->destination);
  R *d = reinterpret_cast<R *>(out.row);
  const R *a = w.row<R>(i->a);
  const R *b = w.row<R>(i->b);
  const R *c = w.row<R>(i->c);
  EACH_HALF(h) d[h] = F::template apply<R>(a[h], b[h], c[h]);
  out.store();
  return i + 1;
}

} // namespace

} // namespace emulator::EMULATOR_ISA
