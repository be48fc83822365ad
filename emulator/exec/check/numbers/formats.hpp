// The formats of numbers as the bits of a lane.
#pragma once

#include <string>

#include "exec/program/program.hpp"

namespace emulator {

struct Format {
  uint8_t bytes;     // of a lane
  uint8_t part_bits; // of one of its values
  uint8_t exponent_bits, fraction_bits;
};
inline Format format_of(NumberType type) {
  switch (type) {
  case NumberType::f16:
    return {2, 16, 5, 10};
  case NumberType::bf16:
    return {2, 16, 8, 7};
  case NumberType::f16x2:
    return {4, 16, 5, 10};
  case NumberType::bf16x2:
    return {4, 16, 8, 7};
  case NumberType::f32:
    return {4, 32, 8, 23};
  case NumberType::f32x2:
    return {8, 32, 8, 23};
  case NumberType::f64:
    return {8, 64, 11, 52};
  case NumberType::byte:
    return {1, 8, 0, 0};
  case NumberType::s16:
  case NumberType::u16:
    return {2, 16, 0, 0};
  case NumberType::s32:
  case NumberType::u32:
    return {4, 32, 0, 0};
  default:
    return {8, 64, 0, 0};
  }
}

inline bool is_floating(NumberType type) { return type >= NumberType::f16; }
inline uint32_t parts_of(const Format &format) { return 8u * format.bytes / format.part_bits; }
inline uint64_t part(uint64_t bits, const Format &format, uint32_t number) {
  uint64_t shifted = bits >> (number * format.part_bits);
  return format.part_bits == 64 ? shifted : shifted & ((uint64_t{1} << format.part_bits) - 1);
}
inline uint64_t exponent_mask(const Format &format) {
  return ((uint64_t{1} << format.exponent_bits) - 1) << format.fraction_bits;
}
inline bool is_finite(uint64_t value, const Format &format) {
  return format.exponent_bits == 0 || (value & exponent_mask(format)) != exponent_mask(format);
}
inline bool is_nan(uint64_t value, const Format &format) {
  return !is_finite(value, format) && (value & ((uint64_t{1} << format.fraction_bits) - 1)) != 0;
}

// Of a finite number.
double value_of(uint64_t value, const Format &format);
// A value as a person reads it: "1.5", "-inf", of a pair "(1, nan)".
std::string number_text(NumberType type, uint64_t bits);

} // namespace emulator
