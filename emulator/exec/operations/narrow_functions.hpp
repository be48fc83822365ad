// The formats of 8, 6 and 4 bits.
#pragma once

#include "exec/operations/half_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct e4m3;
struct e5m2;
struct e2m1;
struct e2m3;
struct e3m2;
template <> struct Layout<e4m3> {
  static constexpr u32 exponent_bits = 4, fraction_bits = 3, largest = 0x7e, nan = 0x7f;
};
template <> struct Layout<e5m2> {
  static constexpr u32 exponent_bits = 5, fraction_bits = 2, largest = 0x7b, nan = 0x7f;
};
// No NaN: the largest number stands for it.
template <> struct Layout<e2m1> {
  static constexpr u32 exponent_bits = 2, fraction_bits = 1, largest = 0x07, nan = 0x07;
};
template <> struct Layout<e2m3> {
  static constexpr u32 exponent_bits = 2, fraction_bits = 3, largest = 0x1f, nan = 0x1f;
};
template <> struct Layout<e3m2> {
  static constexpr u32 exponent_bits = 3, fraction_bits = 2, largest = 0x1f, nan = 0x1f;
};

template <typename T> f32 widest(u32 code) {
  constexpr u32 fraction_bits = Layout<T>::fraction_bits, exponent_bits = Layout<T>::exponent_bits;
  constexpr u32 bias = bias_of<T>, up = 23 - fraction_bits;
  u32 magnitude = code & ((u32{1} << (exponent_bits + fraction_bits)) - 1);
  u32 shifted = magnitude << up;
  u32 normal = shifted + ((127 - bias) << 23);
  f32 subnormal =
      bit_cast<f32>(shifted + ((128 - bias) << 23)) - bit_cast<f32>(static_cast<u32>((128 - bias) << 23));
  u32 bits = magnitude >> fraction_bits ? normal : bit_cast<u32>(subnormal);
  if constexpr (std::is_same_v<T, e5m2>)
    bits = magnitude >= 0x7c ? shifted | 0x7f800000 : bits;
  if constexpr (std::is_same_v<T, e4m3>)
    bits = magnitude == 0x7f ? 0x7fffffff : bits;
  return bit_cast<f32>(bits | (code >> (exponent_bits + fraction_bits) & 1) << 31);
}

// ue8m0: a power of two.
inline f32 power_of(u32 code) {
  return code == 0xff ? std::numeric_limits<f32>::quiet_NaN()
                      : bit_cast<f32>(code ? code << 23 : u32{0x00400000});
}

template <typename T> f64 magnitude_of(u32 code) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
    return widen(T{static_cast<u16>(code)});
  else
    return widest<T>(code);
}

// .rs: |x| as the code below or above it: above where the part of the way to there, and `random` of 2^-bits
// of it, make up the whole. `end` is a code that no number reaches.
template <typename T> u32 code_by_bits(f32 x, u32 random, u32 bits, u32 end) {
  u32 code = magnitude_code<T>(x, Rounding::zero);
  if (code >= end)
    return end;
  f64 below = magnitude_of<T>(code), above = magnitude_of<T>(code + 1);
  f64 step = above < std::numeric_limits<f64>::infinity() ? above - below : below - magnitude_of<T>(code - 1);
  f64 part = (static_cast<f64>(AbsoluteFloat::apply<f32>(x)) - below) / step;
  return part + static_cast<f64>(random) / static_cast<f64>(u32{1} << bits) >= 1 ? code + 1 : code;
}

} // namespace

} // namespace emulator::EMULATOR_ISA
