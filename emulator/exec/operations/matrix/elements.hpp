// Elements of matrices as f32, which holds each exactly, and the factors of their blocks.
#pragma once

#include "exec/operations/narrow_functions.hpp"
#include "exec/program/matrix.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

template <typename T> f32 widest_of(u32 code) { return widest<T>(code); }
// Of .kind::f8f6f4 an e2m1 is in the middle of its byte.
inline f32 widest_of_middle(u32 code) { return widest<e2m1>(code >> 2); }

struct NarrowTable {
  alignas(64) f32 value[256];
  explicit NarrowTable(f32 (*widen_code)(u32)) {
    for (u32 code = 0; code < 256; ++code)
      value[code] = widen_code(code);
  }
};

template <f32 (*Widen)(u32)> void widen_bytes(const u32 *words, u32 count, f32 *values) {
  static const NarrowTable table(Widen);
  const u8 *bytes = reinterpret_cast<const u8 *>(words);
  for (u32 k = 0; k < 4 * count; ++k)
    values[k] = table.value[bytes[k]];
}

template <typename T> void widen_halves(const u32 *words, u32 count, f32 *values) {
  const u16 *halves = reinterpret_cast<const u16 *>(words);
  for (u32 h = 0; h < 2 * count; ++h)
    values[h] = widen(T{halves[h]});
}

// `count` words that hold elements side by side, the first in the lowest bits.
[[gnu::noinline, maybe_unused]] void widen_words(MatrixElement element, const u32 *words, u32 count,
                                                 f32 *values) {
  const u8 *bytes = reinterpret_cast<const u8 *>(words);
  switch (element) {
  case MatrixElement::f16:
    return widen_halves<f16>(words, count, values);
  case MatrixElement::bf16:
    return widen_halves<bf16>(words, count, values);
  case MatrixElement::tf32: // the digits that tf32 lacks are not looked at
    for (u32 k = 0; k < count; ++k)
      values[k] = bit_cast<f32>(words[k] & 0xffffe000);
    return;
  case MatrixElement::e4m3:
    return widen_bytes<widest_of<e4m3>>(words, count, values);
  case MatrixElement::e5m2:
    return widen_bytes<widest_of<e5m2>>(words, count, values);
  case MatrixElement::e3m2:
    return widen_bytes<widest_of<e3m2>>(words, count, values);
  case MatrixElement::e2m3:
    return widen_bytes<widest_of<e2m3>>(words, count, values);
  case MatrixElement::e2m1:
    return widen_bytes<widest_of_middle>(words, count, values);
  case MatrixElement::packed_e2m1:
    for (u32 k = 0; k < 8 * count; ++k)
      values[k] = widest<e2m1>(bytes[k / 2] >> (k % 2 ? 4 : 0) & 15u);
    return;
  case MatrixElement::s8:
    for (u32 k = 0; k < 4 * count; ++k)
      values[k] = static_cast<s8>(bytes[k]);
    return;
  case MatrixElement::u8:
    for (u32 k = 0; k < 4 * count; ++k)
      values[k] = bytes[k];
    return;
  case MatrixElement::s4:
    for (u32 k = 0; k < 8 * count; ++k)
      values[k] = static_cast<s8>(bytes[k / 2] << (k % 2 ? 0 : 4)) >> 4;
    return;
  case MatrixElement::u4:
    for (u32 k = 0; k < 8 * count; ++k)
      values[k] = bytes[k / 2] >> (k % 2 ? 4 : 0) & 15;
    return;
  default:
    return;
  }
}

// ue8m0: a power of two; ue4m3: an e4m3 without a sign. f32 holds both exactly.
inline f32 scale_of(MatrixScale format, u32 code) {
  return format == MatrixScale::ue4m3 ? widest<e4m3>(code & 0x7f) : power_of(code);
}

// .b6x16_p32, .b4x16_p64: 16 elements of 6 or 4 bits side by side, then padding up to 16 bytes. Each goes
// into the low bits of a byte.
inline void unpack_padded(u32 element_bits, const u8 *from, u8 (&to)[16]) {
  u64 words[2];
  std::memcpy(words, from, sizeof words);
  for (u32 e = 0; e < 16; ++e) {
    u32 at = e * element_bits, in_word = at % 64;
    u64 bits = words[at / 64] >> in_word;
    if (in_word + element_bits > 64)
      bits |= words[1] << (64 - in_word);
    to[e] = static_cast<u8>(bits & ((1u << element_bits) - 1));
  }
}

} // namespace

} // namespace emulator::EMULATOR_ISA
