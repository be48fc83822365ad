// Conversions on scalars, and how they are entered into the table. Forms are
// "cvt[.int rounding][.ftz][.relu][.satfinite][.sat].result.source"; the rounding of conversions that end in
// a floating type is a flag of the instruction.
#pragma once

#include <limits>

#include "exec/operations/float_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct Convert {
  template <typename R, typename A> static R apply(A a) { return static_cast<R>(a); }
};
struct ConvertSaturating {
  template <typename R, typename A> static R apply(A a) {
    using Wide = __int128;
    constexpr Wide low = std::numeric_limits<R>::min(), high = std::numeric_limits<R>::max();
    if constexpr (Wide{std::numeric_limits<A>::min()} >= low && Wide{std::numeric_limits<A>::max()} <= high) {
      return static_cast<R>(a);
    } else {
      // Compared as s64 or u64, whichever holds every A.
      using C = std::conditional_t<std::is_signed_v<A>, s64, u64>;
      constexpr C clow =
          low < std::numeric_limits<C>::min() ? std::numeric_limits<C>::min() : static_cast<C>(low);
      constexpr C chigh =
          high > std::numeric_limits<C>::max() ? std::numeric_limits<C>::max() : static_cast<C>(high);
      C c = a;
      return static_cast<R>(c < clow ? clow : c > chigh ? chigh : c);
    }
  }
};

struct RoundNearest {
  static f64 apply(f64 x) { return __builtin_nearbyint(x); }
};
struct RoundZero {
  static f64 apply(f64 x) { return __builtin_trunc(x); }
};
struct RoundDown {
  static f64 apply(f64 x) { return __builtin_floor(x); }
};
struct RoundUp {
  static f64 apply(f64 x) { return __builtin_ceil(x); }
};

// Out of range gives the nearest integer of the type. NaN gives 0, or only the top bit when 64 bits are
// involved.
template <typename Round, bool Flush> struct ToInteger {
  template <typename R, typename A> static R apply(A a) {
    if constexpr (Flush && std::is_same_v<A, f32>)
      a = flush(a);
    f64 x = Round::apply(static_cast<f64>(a));
    constexpr bool wide = sizeof(A) == 8 || sizeof(R) == 8;
    constexpr R not_a_number = wide ? static_cast<R>(bits_of<R>{1} << (8 * sizeof(R) - 1)) : R{0};
    constexpr f64 low = static_cast<f64>(std::numeric_limits<R>::min());
    constexpr f64 beyond =
        static_cast<f64>(u64{1} << (8 * sizeof(R) - 1)) * (std::is_signed_v<R> ? 1.0 : 2.0);
    if constexpr (sizeof(R) < 8) {
      // All values fit into s64, and s32 where that is enough for the processor to convert several at once.
      using I = std::conditional_t<(sizeof(R) < 4 || std::is_same_v<R, s32>), s32, s64>;
      f64 clamped = x < low ? low : x;
      clamped = clamped > beyond - 1.0 ? beyond - 1.0 : clamped;
      clamped = is_number(x) ? clamped : 0.0;
      R value = static_cast<R>(static_cast<I>(clamped));
      return is_number(x) ? value : not_a_number;
    } else {
      if (!is_number(x))
        return not_a_number;
      if (x < low)
        return std::numeric_limits<R>::min();
      if (x >= beyond)
        return std::numeric_limits<R>::max();
      return static_cast<R>(x);
    }
  }
};

template <bool Flush, bool Saturate> struct ToFloat {
  template <typename R, typename A> static R apply(A a) {
    if constexpr (Flush && std::is_same_v<A, f32>)
      a = flush(a);
    R r = static_cast<R>(a);
    if constexpr (std::is_floating_point_v<A>)
      r = canonical(r);
    else if constexpr (std::is_unsigned_v<A>)
      r = AbsoluteFloat::apply<R>(r); // built from differences, 0 becomes -0 when the rounding is down
    if constexpr (Flush && std::is_same_v<R, f32>)
      r = flush(r);
    if constexpr (Saturate)
      r = saturate(r);
    return r;
  }
};
// To an integer that stays a floating value: cvt.rni.f32.f32.
template <typename Round, bool Flush, bool Saturate> struct ToIntegral {
  template <typename R, typename A> static R apply(A a) {
    if constexpr (Flush && std::is_same_v<A, f32>)
      a = flush(a);
    R r = canonical(static_cast<R>(Round::apply(static_cast<f64>(a))));
    if constexpr (Saturate)
      r = saturate(r);
    return r;
  }
};

template <typename R, typename A> std::string pair_of() {
  return "." + std::string(ptx::name_of(type_of<R>)) + "." + std::string(ptx::name_of(type_of<A>));
}
template <typename F, typename R, typename A> void enter(OperationTable &t, const std::string &form) {
  t.add("cvt" + form + pair_of<R, A>(), {unary<F, R, A>, type_of<R>, {type_of<A>}, 1});
}

} // namespace

} // namespace emulator::EMULATOR_ISA
