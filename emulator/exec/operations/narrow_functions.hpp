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

} // namespace

} // namespace emulator::EMULATOR_ISA
