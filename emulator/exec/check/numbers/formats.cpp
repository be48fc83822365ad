#include "exec/check/numbers/formats.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace emulator {

double value_of(uint64_t value, const Format &format) {
  const uint64_t fraction = value & ((uint64_t{1} << format.fraction_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>((value & exponent_mask(format)) >> format.fraction_bits);
  const uint64_t whole = exponent == 0 ? 0 : uint64_t{1} << format.fraction_bits;
  const double size =
      std::ldexp(static_cast<double>(fraction | whole), std::max(exponent, 1) - bias - format.fraction_bits);
  return value >> (format.part_bits - 1) ? -size : size;
}

std::string number_text(NumberType type, uint64_t bits) {
  const Format format = format_of(type);
  std::string text;
  for (uint32_t p = 0; p < parts_of(format); ++p) {
    uint64_t value = part(bits, format, p);
    text += p == 0 ? "" : ", ";
    if (!is_floating(type)) {
      bool is_signed = type == NumberType::s16 || type == NumberType::s32 || type == NumberType::s64;
      uint32_t unused = 64 - format.part_bits;
      text +=
          is_signed ? std::to_string(static_cast<int64_t>(value << unused) >> unused) : std::to_string(value);
      continue;
    }
    if (!is_finite(value, format)) {
      text += is_nan(value, format) ? "nan" : value >> (format.part_bits - 1) ? "-inf" : "inf";
      continue;
    }
    char written[32];
    std::snprintf(written, sizeof written, "%.*g",
                  format.part_bits == 64   ? 17
                  : format.part_bits == 32 ? 9
                                           : 5,
                  value_of(value, format));
    text += written;
  }
  return parts_of(format) > 1 ? "(" + text + ")" : text;
}

} // namespace emulator
