// Integer arithmetic on scalars. Division by zero gives all ones (remainder: the dividend).
#pragma once

#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

template <typename T> using unsigned_of = std::make_unsigned_t<T>;
template <typename T> struct Wide;
template <> struct Wide<u16> {
  using type = u32;
};
template <> struct Wide<s16> {
  using type = s32;
};
template <> struct Wide<u32> {
  using type = u64;
};
template <> struct Wide<s32> {
  using type = s64;
};
template <> struct Wide<u64> {
  using type = unsigned __int128;
};
template <> struct Wide<s64> {
  using type = __int128;
};
template <typename T> using wide_of = typename Wide<T>::type;

struct Add {
  template <typename R> static R apply(R a, R b) { return static_cast<R>(a + b); }
};
struct Subtract {
  template <typename R> static R apply(R a, R b) { return static_cast<R>(a - b); }
};
struct Multiply {
  // u16 * u16 would be multiplied as int and overflow.
  template <typename R> static R apply(R a, R b) {
    return static_cast<R>(static_cast<std::common_type_t<R, u32>>(a) * b);
  }
};
struct MultiplyAdd {
  template <typename R> static R apply(R a, R b, R c) { return static_cast<R>(Multiply::apply<R>(a, b) + c); }
};
struct Negate {
  template <typename R> static R apply(R a) { return static_cast<R>(R{0} - a); }
};
struct AbsoluteInteger {
  template <typename R> static R apply(R a) {
    using U = unsigned_of<R>;
    return static_cast<R>(a < 0 ? static_cast<U>(U{0} - static_cast<U>(a)) : static_cast<U>(a));
  }
};
struct MultiplyHigh {
  template <typename R> static R apply(R a, R b) {
    return static_cast<R>(static_cast<wide_of<R>>(a) * b >> (8 * sizeof(R)));
  }
};
struct MultiplyHighAdd {
  template <typename R> static R apply(R a, R b, R c) {
    using U = unsigned_of<R>;
    return static_cast<R>(static_cast<U>(MultiplyHigh::apply<R>(a, b)) + static_cast<U>(c));
  }
};
struct MultiplyHighAddSaturating {
  template <typename R> static R apply(R a, R b, R c) {
    s64 sum = static_cast<s64>(MultiplyHigh::apply<R>(a, b)) + c;
    return static_cast<R>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
  }
};
struct Multiply24 {
  template <typename R> static R apply(R a, R b) {
    using U = u32;
    R x = static_cast<R>(static_cast<R>(static_cast<U>(a) << 8) >> 8);
    R y = static_cast<R>(static_cast<R>(static_cast<U>(b) << 8) >> 8);
    return static_cast<R>(static_cast<U>(x) * static_cast<U>(y));
  }
};
struct Multiply24Add {
  template <typename R> static R apply(R a, R b, R c) {
    return static_cast<R>(static_cast<u32>(Multiply24::apply<R>(a, b)) + static_cast<u32>(c));
  }
};
struct MultiplyWide {
  template <typename R, typename A> static R apply(A a, A b) { return static_cast<R>(static_cast<R>(a) * b); }
};
struct MultiplyWideAdd {
  template <typename R, typename A> static R apply(A a, A b, R c) {
    using U = unsigned_of<R>;
    return static_cast<R>(static_cast<U>(MultiplyWide::apply<R>(a, b)) + static_cast<U>(c));
  }
};
struct DivideInteger {
  template <typename R> static R apply(R a, R b) {
    if (b == 0)
      return static_cast<R>(~R{0});
    if constexpr (std::is_signed_v<R>)
      if (b == -1)
        return Negate::apply<unsigned_of<R>>(static_cast<unsigned_of<R>>(a));
    return static_cast<R>(a / b);
  }
};
struct Remainder {
  template <typename R> static R apply(R a, R b) {
    if (b == 0)
      return a;
    if constexpr (std::is_signed_v<R>)
      if (b == -1)
        return 0;
    return static_cast<R>(a % b);
  }
};
// Bits 16 to 47 of the product of 24 bits each.
struct Multiply24High {
  template <typename R> static R apply(R a, R b) {
    R x = static_cast<R>(static_cast<R>(static_cast<u32>(a) << 8) >> 8);
    R y = static_cast<R>(static_cast<R>(static_cast<u32>(b) << 8) >> 8);
    return static_cast<R>(static_cast<wide_of<R>>(x) * y >> 16);
  }
};
struct Multiply24HighAdd {
  template <typename R> static R apply(R a, R b, R c) {
    return static_cast<R>(static_cast<u32>(Multiply24High::apply<R>(a, b)) + static_cast<u32>(c));
  }
};
struct Multiply24HighAddSaturating {
  template <typename R> static R apply(R a, R b, R c) {
    s64 sum = static_cast<s64>(Multiply24High::apply<R>(a, b)) + c;
    return static_cast<R>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
  }
};
struct MinimumInteger {
  template <typename R> static R apply(R a, R b) { return a < b ? a : b; }
};
struct MaximumInteger {
  template <typename R> static R apply(R a, R b) { return a > b ? a : b; }
};
// Negative results become 0.
struct MinimumRelu {
  template <typename R> static R apply(R a, R b) {
    return MaximumInteger::apply<R>(MinimumInteger::apply<R>(a, b), R{0});
  }
};
struct MaximumRelu {
  template <typename R> static R apply(R a, R b) {
    return MaximumInteger::apply<R>(MaximumInteger::apply<R>(a, b), R{0});
  }
};
struct SumOfAbsoluteDifference {
  template <typename R> static R apply(R a, R b, R c) {
    using U = unsigned_of<R>;
    U difference = a < b ? static_cast<U>(static_cast<U>(b) - static_cast<U>(a))
                         : static_cast<U>(static_cast<U>(a) - static_cast<U>(b));
    return static_cast<R>(static_cast<U>(c) + difference);
  }
};
struct AddSaturating {
  template <typename R> static R apply(R a, R b) {
    s64 sum = static_cast<s64>(a) + b;
    return static_cast<R>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
  }
};
struct SubtractSaturating {
  template <typename R> static R apply(R a, R b) {
    s64 difference = static_cast<s64>(a) - b;
    return static_cast<R>(difference > INT32_MAX   ? INT32_MAX
                          : difference < INT32_MIN ? INT32_MIN
                                                   : difference);
  }
};

} // namespace

} // namespace emulator::EMULATOR_ISA
