#include "exec/sampling/texel.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace emulator {

namespace {

template <typename T> T read(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint32_t bits_of(float value) { return read<uint32_t>(&value); }
float as_float(uint32_t bits) { return read<float>(&bits); }

constexpr uint32_t one = 0x3f800000;

// What a channel holds, extended to 64 bits.
int64_t integer_channel(const TexelFormat &format, const void *texel, uint32_t channel) {
  const uint8_t *at = static_cast<const uint8_t *>(texel) + channel * format.channel_bytes;
  bool with_sign = format.kind == TexelKind::signed_integer || format.kind == TexelKind::signed_normalised;
  switch (format.channel_bytes) {
  case 1:
    return with_sign ? int64_t{static_cast<int8_t>(*at)} : int64_t{*at};
  case 2:
    return with_sign ? int64_t{read<int16_t>(at)} : int64_t{read<uint16_t>(at)};
  default:
    return with_sign ? int64_t{read<int32_t>(at)} : int64_t{read<uint32_t>(at)};
  }
}

uint32_t float_channel(const TexelFormat &format, const void *texel, uint32_t channel) {
  const uint8_t *at = static_cast<const uint8_t *>(texel) + channel * format.channel_bytes;
  return format.channel_bytes == 2 ? float_of(read<uint16_t>(at)) : read<uint32_t>(at);
}

bool has_sign(const TexelFormat &format) {
  return format.kind == TexelKind::signed_integer || format.kind == TexelKind::signed_normalised;
}

uint32_t largest(const TexelFormat &format) {
  uint32_t bits = 8u * format.channel_bytes - (has_sign(format) ? 1 : 0);
  return (uint32_t{1} << bits) - 1;
}

// x^2.4 for x in (0, 1]: x^2 times the fifth root of x^2, by Newton's method.
double to_the_2_4(double x) {
  double square = x * x, root = 1;
  for (int step = 0; step < 60; ++step)
    root = (4 * root + square / (root * root * root * root)) / 5;
  return square * root;
}

// IEC 61966-2-1.
const std::array<float, 256> &linear_of_srgb() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values;
    for (int code = 0; code < 256; ++code) {
      double c = code / 255.0;
      values[static_cast<size_t>(code)] =
          static_cast<float>(c <= 0.04045 ? c / 12.92 : to_the_2_4((c + 0.055) / 1.055));
    }
    return values;
  }();
  return table;
}

bool is_srgb(const Texture &texture, uint32_t channel) {
  const TexelFormat &format = texture.image.format;
  return texture.sampler.srgb && channel < 3 && format.channel_bytes == 1 && !has_sign(format) &&
         !texture.gives_integers();
}

} // namespace

uint32_t float_of(uint16_t half) {
  uint32_t sign = uint32_t{half & 0x8000u} << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 31)
    return sign | 0x7f800000 | fraction << 13;
  if (exponent != 0)
    return sign | (exponent + 112) << 23 | fraction << 13;
  return sign | bits_of(static_cast<float>(fraction) / 16777216.0f);
}

uint16_t half_of(uint32_t bits) {
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (magnitude >= 0x477ff000) // halfway between the largest number and the next power of two
    return sign | 0x7c00;
  if (magnitude < 0x38800000) { // subnormal: units of 2^-24
    double units = static_cast<double>(as_float(magnitude)) * 16777216.0;
    uint32_t whole = static_cast<uint32_t>(units);
    double rest = units - whole;
    whole += rest > 0.5 || (rest == 0.5 && (whole & 1)) ? 1 : 0;
    return static_cast<uint16_t>(sign | whole);
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

Channels read_raw(const TexelFormat &format, const void *texel) {
  Channels result{{0, 0, 0, format.is_integer() ? 1 : one}};
  for (uint32_t c = 0; c < format.channels; ++c)
    result.bits[c] = format.kind == TexelKind::floating
                         ? float_channel(format, texel, c)
                         : static_cast<uint32_t>(integer_channel(format, texel, c));
  return result;
}

uint32_t divisor_of(const Texture &texture) {
  const TexelFormat &format = texture.image.format;
  bool whole = format.kind == TexelKind::floating || texture.gives_integers();
  return whole ? 1 : largest(format);
}

Fraction exact_float(uint32_t bits, uint32_t divisor) {
  Fraction result;
  result.bits = bits;
  result.is_number = (bits & 0x7f800000) != 0x7f800000;
  // At most 24 bits times 16.
  result.value = result.is_number ? static_cast<double>(as_float(bits)) * divisor : 0;
  return result;
}

Fraction exact_channel(const Texture &texture, const void *texel, uint32_t channel) {
  const TexelFormat &format = texture.image.format;
  uint32_t divisor = divisor_of(texture);
  if (channel >= format.channels)
    return exact_float(channel == 3 ? one : 0, divisor);
  if (format.kind == TexelKind::floating)
    return exact_float(float_channel(format, texel, channel), divisor);
  int64_t value = integer_channel(format, texel, channel);
  if (is_srgb(texture, channel))
    return exact_float(bits_of(linear_of_srgb()[static_cast<size_t>(value)]), divisor);
  Fraction result;
  // The least signed integer counts as the one above it, so that the range is [-1, 1].
  int64_t least = -static_cast<int64_t>(divisor);
  result.value = static_cast<double>(value < least ? least : value);
  return result;
}

Channels read_float(const Texture &texture, const void *texel) {
  const TexelFormat &format = texture.image.format;
  if (format.kind == TexelKind::floating)
    return read_raw(format, texel);
  Channels result{{0, 0, 0, one}};
  for (uint32_t c = 0; c < format.channels; ++c) {
    if (is_srgb(texture, c)) {
      result.bits[c] = bits_of(linear_of_srgb()[static_cast<size_t>(integer_channel(format, texel, c))]);
      continue;
    }
    // A quotient of two whole numbers below 2^17 is nowhere near halfway between two floats without being
    // there, so the second rounding changes nothing.
    Fraction exact = exact_channel(texture, texel, c);
    result.bits[c] = bits_of(static_cast<float>(exact.value / divisor_of(texture)));
  }
  return result;
}

void write_texel(const TexelFormat &format, void *texel, const uint32_t *values, uint32_t count) {
  uint8_t *at = static_cast<uint8_t *>(texel);
  for (uint32_t c = 0; c < format.channels && c < count; ++c, at += format.channel_bytes) {
    uint32_t bits = values[c];
    if (format.kind == TexelKind::floating) {
      uint16_t half = half_of(bits);
      format.channel_bytes == 2 ? std::memcpy(at, &half, 2) : std::memcpy(at, &bits, 4);
      continue;
    }
    int64_t most = format.channel_bytes == 4 && !has_sign(format) ? INT64_C(0xffffffff)
                   : format.channel_bytes == 4                    ? INT64_C(0x7fffffff)
                                                                  : int64_t{largest(format)};
    int64_t least = !has_sign(format) ? 0 : format.is_integer() ? -most - 1 : -most;
    int64_t value;
    if (format.is_integer()) {
      value = has_sign(format) ? int64_t{static_cast<int32_t>(bits)} : int64_t{bits};
    } else {
      double scaled = static_cast<double>(as_float(bits)) * static_cast<double>(most);
      // To nearest, halves away from zero; NaN is zero.
      value = std::isnan(scaled)                     ? 0
              : scaled >= static_cast<double>(most)  ? most
              : scaled <= -static_cast<double>(most) ? -most
                                                     : std::llround(scaled);
    }
    value = value > most ? most : value < least ? least : value;
    std::memcpy(at, &value, format.channel_bytes); // little-endian
  }
}

} // namespace emulator
