// The elements of matrices of tcgen05, from 16 bytes of memory to f32, which holds each exactly.
#pragma once

#include "exec/operations/narrow_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// What 16 bytes hold: `count` elements, the first of them in the lowest bits.
struct TensorElements {
  u32 count = 0;
  bool exact = true; // f32 holds every product of two of them
  void (*widen)(const u8 *bytes, f32 *values) = nullptr;
};

template <typename T> f32 value_of_code(u32 code) {
  if constexpr (std::is_same_v<T, u8> || std::is_same_v<T, s8>)
    return static_cast<T>(code);
  else
    return widest<T>(code);
}
template <typename T, u32 Shift, u32 Mask> struct CodeTable {
  alignas(64) f32 value[256];
  CodeTable() {
    for (u32 code = 0; code < 256; ++code)
      value[code] = value_of_code<T>(code >> Shift & Mask);
  }
};

template <typename T> void widen_16_bits(const u8 *bytes, f32 *values) {
  for (u32 e = 0; e < 8; ++e) {
    u16 half;
    std::memcpy(&half, bytes + 2 * e, 2);
    values[e] = widen(T{half});
  }
}
inline void widen_tf32(const u8 *bytes, f32 *values) {
  for (u32 e = 0; e < 4; ++e) { // the digits that tf32 lacks are not looked at
    u32 word;
    std::memcpy(&word, bytes + 4 * e, 4);
    values[e] = bit_cast<f32>(word & 0xffffe000);
  }
}
// A byte each, of which Mask are the element's bits.
template <typename T, u32 Shift = 0, u32 Mask = 0xff> void widen_8_bits(const u8 *bytes, f32 *values) {
  static const CodeTable<T, Shift, Mask> table;
  for (u32 e = 0; e < 16; ++e)
    values[e] = table.value[bytes[e]];
}
// Side by side; with fewer than 16 x 8 bits what is left over is not looked at.
template <typename T, u32 Bits, u32 Count> void widen_packed(const u8 *bytes, f32 *values) {
  static const CodeTable<T, 0, (1u << Bits) - 1> table;
  for (u32 e = 0; e < Count; ++e) {
    u32 at = e * Bits, code = bytes[at / 8] >> at % 8;
    if (at % 8 + Bits > 8)
      code |= u32{bytes[at / 8 + 1]} << (8 - at % 8);
    values[e] = table.value[code & ((1u << Bits) - 1)];
  }
}

// `code`: atype or btype of the instruction descriptor. Elements of 6 and 4 bits fill bytes in tensor memory, and in
// shared memory 12 or 8 of 16 bytes. count 0: there is no such type.
inline TensorElements elements_of(TensorKind kind, u32 code, bool in_tensor_memory) {
  switch (kind) {
  case TensorKind::f16:
    if (code == 0)
      return {8, true, widen_16_bits<f16>};
    return code == 1 ? TensorElements{8, false, widen_16_bits<bf16>} : TensorElements{};
  case TensorKind::tf32:
    return code == 2 ? TensorElements{4, false, widen_tf32} : TensorElements{};
  case TensorKind::i8:
    return code == 0   ? TensorElements{16, true, widen_8_bits<u8>}
           : code == 1 ? TensorElements{16, true, widen_8_bits<s8>}
                       : TensorElements{};
  case TensorKind::f8f6f4:
  case TensorKind::mxf8f6f4:
    switch (code) {
    case 0:
      return {16, true, widen_8_bits<e4m3>};
    case 1:
      return {16, true, widen_8_bits<e5m2>};
    case 3:
      return {16, true, in_tensor_memory ? widen_8_bits<e2m3, 0, 63> : widen_packed<e2m3, 6, 16>};
    case 4:
      return {16, true, in_tensor_memory ? widen_8_bits<e3m2, 0, 63> : widen_packed<e3m2, 6, 16>};
    case 5:
      return {16, true, in_tensor_memory ? widen_8_bits<e2m1, 2, 15> : widen_packed<e2m1, 4, 16>};
    default:
      return {};
    }
  default:
    return code == 1 ? TensorElements{32, true, widen_packed<e2m1, 4, 32>} : TensorElements{};
  }
}

// ue8m0: a power of 2, and NaN; ue4m3: e4m3 without a sign.
inline f32 scale_of_code(u32 code, bool powers) {
  if (!powers)
    return widest<e4m3>(code & 0x7f);
  return code == 0xff ? bit_cast<f32>(u32{0x7fffffff}) : code == 0 ? 0x1p-127f : bit_cast<f32>(code << 23);
}

} // namespace

} // namespace emulator::EMULATOR_ISA
