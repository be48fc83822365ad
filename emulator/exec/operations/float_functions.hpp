// Floating point on scalars. add, sub, mul, div, sqrt and fma are IEEE operations of the processor; the
// functions a GPU only approximates are polynomials in double, rounded once, so every machine gives the same
// bits.
#pragma once

#include <cmath>

#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

inline f32 nan_f32() { return bit_cast<f32>(u32{0x7fffffff}); }
// The pattern an invalid operation in double gives; not yet seen on a GPU (GT-NAN) for NaN operands.
inline f64 nan_f64() { return bit_cast<f64>(u64{0xfff8000000000000}); }
inline bool is_number(f32 x) { return x == x; }
inline bool is_number(f64 x) { return x == x; }
inline f32 canonical(f32 x) { return is_number(x) ? x : nan_f32(); }
inline f64 canonical(f64 x) { return is_number(x) ? x : nan_f64(); }

inline f32 flush(f32 x) {
  u32 bits = bit_cast<u32>(x);
  return bit_cast<f32>((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
}
// Below zero and NaN: +0.
inline f32 saturate(f32 x) {
  f32 low = x > 0.0f ? x : 0.0f;
  return low < 1.0f ? low : 1.0f;
}
inline f64 saturate(f64 x) {
  f64 low = x > 0.0 ? x : 0.0;
  return low < 1.0 ? low : 1.0;
}

struct AddFloat {
  template <typename R> static R apply(R a, R b) { return canonical(a + b); }
};
struct SubtractFloat {
  template <typename R> static R apply(R a, R b) { return canonical(a - b); }
};
struct MultiplyFloat {
  template <typename R> static R apply(R a, R b) { return canonical(a * b); }
};
struct FusedMultiplyAdd {
  template <typename R> static R apply(R a, R b, R c) {
    if constexpr (sizeof(R) == 4)
      return canonical(__builtin_fmaf(a, b, c));
    else
      return canonical(__builtin_fma(a, b, c));
  }
};
struct DivideFloat {
  template <typename R> static R apply(R a, R b) { return canonical(a / b); }
};
struct Reciprocal {
  template <typename R> static R apply(R a) { return canonical(R{1} / a); }
};
struct SquareRoot {
  template <typename R> static R apply(R a) {
    if constexpr (sizeof(R) == 4)
      return canonical(__builtin_sqrtf(a));
    else
      return canonical(__builtin_sqrt(a));
  }
};
template <typename T> inline constexpr bits_of<T> sign_bit = bits_of<T>{1} << (8 * sizeof(T) - 1);
struct NegateFloat {
  template <typename R> static R apply(R a) {
    return bit_cast<R>(static_cast<bits_of<R>>(bit_cast<bits_of<R>>(a) ^ sign_bit<R>));
  }
};
struct AbsoluteFloat {
  template <typename R> static R apply(R a) {
    return bit_cast<R>(static_cast<bits_of<R>>(bit_cast<bits_of<R>>(a) & ~sign_bit<R>));
  }
};
struct CopySign {
  // The sign of a, the rest of b.
  template <typename R> static R apply(R a, R b) {
    using B = bits_of<R>;
    return bit_cast<R>(static_cast<B>((bit_cast<B>(a) & sign_bit<R>) | (bit_cast<B>(b) & ~sign_bit<R>)));
  }
};
// A number wins over NaN, -0 is below +0.
struct MinimumFloat {
  template <typename R> static R apply(R a, R b) {
    using B = bits_of<R>;
    R smaller = a < b ? a : b;
    smaller = a == b ? bit_cast<R>(static_cast<B>(bit_cast<B>(a) | bit_cast<B>(b))) : smaller;
    smaller = is_number(b) ? smaller : a;
    smaller = is_number(a) ? smaller : b;
    return canonical(smaller);
  }
};
struct MaximumFloat {
  template <typename R> static R apply(R a, R b) {
    using B = bits_of<R>;
    R larger = a > b ? a : b;
    larger = a == b ? bit_cast<R>(static_cast<B>(bit_cast<B>(a) & bit_cast<B>(b))) : larger;
    larger = is_number(b) ? larger : a;
    larger = is_number(a) ? larger : b;
    return canonical(larger);
  }
};
struct MinimumOrNan {
  template <typename R> static R apply(R a, R b) {
    return is_number(a) && is_number(b) ? MinimumFloat::apply<R>(a, b) : canonical(a + b);
  }
};
struct MaximumOrNan {
  template <typename R> static R apply(R a, R b) {
    return is_number(a) && is_number(b) ? MaximumFloat::apply<R>(a, b) : canonical(a + b);
  }
};

// .xorsign.abs: of the magnitudes, with the product's sign.
template <typename F> struct SignedMagnitude {
  template <typename R> static R apply(R a, R b) {
    using B = bits_of<R>;
    R r = F::template apply<R>(AbsoluteFloat::apply<R>(a), AbsoluteFloat::apply<R>(b));
    B sign = (bit_cast<B>(a) ^ bit_cast<B>(b)) & sign_bit<R>;
    return is_number(r) ? bit_cast<R>(static_cast<B>(bit_cast<B>(r) | sign)) : r;
  }
};
template <typename F> struct OfThree {
  template <typename R> static R apply(R a, R b, R c) {
    return F::template apply<R>(F::template apply<R>(a, b), c);
  }
};
template <typename F> struct OfThreeMagnitudes {
  template <typename R> static R apply(R a, R b, R c) {
    return OfThree<F>::template apply<R>(AbsoluteFloat::apply<R>(a), AbsoluteFloat::apply<R>(b),
                                         AbsoluteFloat::apply<R>(c));
  }
};

// a * (1/b): beyond 2^126 the reciprocal is subnormal and flushed.
struct DivideApproximate {
  template <typename R> static R apply(R a, R b) {
    constexpr f32 limit = 8.507059173023461586584365185794205e37f; // 2^126
    f32 magnitude = AbsoluteFloat::apply<f32>(b);
    f32 quotient = a / b;
    f32 vanished = a * CopySign::apply<f32>(b, 0.0f);
    return canonical(magnitude > limit && magnitude <= 3.402823466e38f ? vanished : quotient);
  }
};
struct DivideFull {
  template <typename R> static R apply(R a, R b) { return canonical(a / b); }
};
struct ReciprocalSquareRoot {
  template <typename R> static R apply(R a) {
    return canonical(static_cast<f32>(1.0 / __builtin_sqrt(static_cast<f64>(a))));
  }
};
// The gross approximations read and write the upper word of a double only.
inline f64 upper_word(f64 x) { return bit_cast<f64>(bit_cast<u64>(x) & 0xffffffff00000000u); }
inline f64 flush64(f64 x) {
  u64 bits = bit_cast<u64>(x);
  return bit_cast<f64>((bits & 0x7ff0000000000000) == 0 ? bits & 0x8000000000000000 : bits);
}
struct ReciprocalGross {
  template <typename R> static R apply(R a) {
    return upper_word(canonical(flush64(1.0 / flush64(upper_word(a)))));
  }
};
struct ReciprocalSquareRootGross {
  template <typename R> static R apply(R a) {
    return upper_word(canonical(1.0 / __builtin_sqrt(flush64(upper_word(a)))));
  }
};
struct ReciprocalSquareRoot64 {
  template <typename R> static R apply(R a) { return canonical(1.0 / __builtin_sqrt(a)); }
};

// Adding this to |x| < 2^51 rounds x to an integer, which is then in the low bits.
constexpr f64 round_to_integer = 6755399441055744.0; // 1.5 * 2^52

// 2^f for |f| <= 1/2: the Taylor series, error below 1e-14.
inline f64 exponential2_of_fraction(f64 f) {
  f64 y = f * 0.693147180559945309417232121458;
  f64 p = 1.0 / 39916800;
  p = p * y + 1.0 / 3628800;
  p = p * y + 1.0 / 362880;
  p = p * y + 1.0 / 40320;
  p = p * y + 1.0 / 5040;
  p = p * y + 1.0 / 720;
  p = p * y + 1.0 / 120;
  p = p * y + 1.0 / 24;
  p = p * y + 1.0 / 6;
  p = p * y + 1.0 / 2;
  p = p * y + 1.0;
  return p * y + 1.0;
}
inline f64 exponential2(f64 x) {
  f64 shifted = x + round_to_integer;
  f64 f = x - (shifted - round_to_integer);
  u64 scale = (bit_cast<u64>(shifted) + 1023) << 52;
  return exponential2_of_fraction(f) * bit_cast<f64>(scale);
}
struct Exponential2 {
  template <typename R> static R apply(R a) {
    f64 x = a;
    x = x > 400.0 ? 400.0 : x;
    x = x < -400.0 ? -400.0 : x;
    f32 result = static_cast<f32>(exponential2(x));
    return is_number(a) ? result : nan_f32();
  }
};
// Exponent plus the logarithm of a mantissa in [sqrt(1/2), sqrt(2)): 2/ln2 * atanh((m-1)/(m+1)).
struct Logarithm2 {
  template <typename R> static R apply(R a) {
    u64 bits = bit_cast<u64>(static_cast<f64>(a));
    u64 biased = bits + (u64{0x3ff0000000000000} - u64{0x3fe6a09e667f3bcd});
    f64 exponent = bit_cast<f64>((biased >> 52) | u64{0x4330000000000000}) - 4503599627370496.0 - 1023.0;
    f64 m = bit_cast<f64>((biased & 0x000fffffffffffff) + u64{0x3fe6a09e667f3bcd});
    f64 s = (m - 1.0) / (m + 1.0);
    f64 z = s * s;
    f64 p = 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1.0;
    f32 result = static_cast<f32>(exponent + 2.885390081777926814719849362 * s * p);
    f32 infinity = bit_cast<f32>(u32{0x7f800000});
    result = a == infinity ? infinity : result;
    result = a == 0.0f ? -infinity : result;
    return a >= 0.0f ? result : nan_f32();
  }
};

// x = k * pi/2 + r, |r| <= pi/4. Exact enough while |x| < 2^30; a GPU promises accuracy inside [-pi, pi]
// only.
struct Quadrant {
  f64 r;
  u64 k;
};
inline Quadrant reduce(f32 a) {
  f64 x = a;
  x = AbsoluteFloat::apply<f64>(x) < 1073741824.0 ? x : 0.0;
  f64 shifted = x * 0.636619772367581343075535053490 + round_to_integer;
  f64 k = shifted - round_to_integer;
  f64 r = x - k * 1.57079632673412561417e+00; // the first 33 bits of pi/2
  r = r - k * 6.07710050650619224932e-11;     // the rest
  return {r, bit_cast<u64>(shifted)};
}
inline f64 sine_polynomial(f64 r) {
  f64 z = r * r;
  f64 p = -1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return r + r * z * p;
}
inline f64 cosine_polynomial(f64 r) {
  f64 z = r * r;
  f64 p = -1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600;
  p = p * z - 1.0 / 3628800;
  p = p * z + 1.0 / 40320;
  p = p * z - 1.0 / 720;
  p = p * z + 1.0 / 24;
  p = p * z - 1.0 / 2;
  return 1.0 + z * p;
}
inline f32 sine_in_quadrant(f32 a, u64 quarter_turns) {
  Quadrant q = reduce(a);
  u64 k = q.k + quarter_turns;
  f64 value = k & 1 ? cosine_polynomial(q.r) : sine_polynomial(q.r);
  f32 result = static_cast<f32>(k & 2 ? -value : value);
  return AbsoluteFloat::apply<f32>(a) <= 3.402823466e38f ? result : nan_f32();
}
struct Sine {
  template <typename R> static R apply(R a) {
    f32 result = sine_in_quadrant(a, 0);
    return a == 0.0f ? a : result; // keeps -0
  }
};
struct Cosine {
  template <typename R> static R apply(R a) { return sine_in_quadrant(a, 1); }
};
inline f64 hyperbolic_tangent(f64 a) {
  f64 x = AbsoluteFloat::apply<f64>(a);
  x = x > 20.0 ? 20.0 : x;
  // (e^2x - 1) / (e^2x + 1); small x by its series, where the difference would cancel.
  f64 e = exponential2(x * 2.885390081777926814719849362);
  f64 z = x * x;
  f64 series = x * (1.0 + z * (-1.0 / 3 + z * (2.0 / 15 + z * (-17.0 / 315 + z * (62.0 / 2835)))));
  return CopySign::apply<f64>(a, x < 0.05 ? series : (e - 1.0) / (e + 1.0));
}
struct HyperbolicTangent {
  template <typename R> static R apply(R a) {
    f32 result = static_cast<f32>(hyperbolic_tangent(a));
    return is_number(a) ? result : nan_f32();
  }
};

// .ftz: subnormal operands and results become zeros of their sign.
template <typename F, bool Flush, bool Saturate> struct Modified {
  static f32 in(f32 x) { return Flush ? flush(x) : x; }
  static f64 in(f64 x) { return x; }
  template <typename R> static R out(R x) {
    if constexpr (Flush && sizeof(R) == 4)
      x = flush(x);
    if constexpr (Saturate)
      x = saturate(x);
    return x;
  }
  template <typename R> static R apply(R a) { return out(F::template apply<R>(in(a))); }
  template <typename R> static R apply(R a, R b) { return out(F::template apply<R>(in(a), in(b))); }
  template <typename R> static R apply(R a, R b, R c) {
    return out(F::template apply<R>(in(a), in(b), in(c)));
  }
};

} // namespace

} // namespace emulator::EMULATOR_ISA
