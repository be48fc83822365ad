// The elements of matrices of tcgen05, from 16 bytes of memory to f32.
#pragma once

#include "exec/operations/matrix/elements.hpp"
#include "exec/program/tensor_form.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// What 16 bytes hold: `count` elements, the first of them in the lowest bits.
struct TensorElements {
  u32 count = 0;
  MatrixElement element = MatrixElement::f16;
  u32 padded_bits = 0; // 6, 4: of elements that lie side by side, before padding

  bool exact() const { return element != MatrixElement::bf16 && element != MatrixElement::tf32; }
  void widen(const u8 *bytes, f32 *values) const {
    u32 words[4];
    if (padded_bits) {
      u8 codes[16];
      unpack_padded(padded_bits, bytes, codes);
      for (u8 &code : codes)
        code = static_cast<u8>(padded_bits == 4 ? code << 2 : code);
      std::memcpy(words, codes, sizeof words);
    } else {
      std::memcpy(words, bytes, sizeof words);
    }
    widen_words(element, words, 4, values);
  }
};

// `code`: atype or btype of the instruction descriptor. Elements of 6 and 4 bits fill bytes in tensor memory,
// and in shared memory 12 or 8 of 16 bytes. count 0: there is no such type.
inline TensorElements elements_of(TensorKind kind, u32 code, bool in_tensor_memory) {
  switch (kind) {
  case TensorKind::f16:
    if (code <= 1)
      return {8, code == 0 ? MatrixElement::f16 : MatrixElement::bf16};
    return {};
  case TensorKind::tf32:
    return code == 2 ? TensorElements{4, MatrixElement::tf32} : TensorElements{};
  case TensorKind::i8:
    if (code <= 1)
      return {16, code == 0 ? MatrixElement::u8 : MatrixElement::s8};
    return {};
  case TensorKind::f8f6f4:
  case TensorKind::mxf8f6f4:
    switch (code) {
    case 0:
      return {16, MatrixElement::e4m3};
    case 1:
      return {16, MatrixElement::e5m2};
    case 3:
      return {16, MatrixElement::e2m3, in_tensor_memory ? 0u : 6u};
    case 4:
      return {16, MatrixElement::e3m2, in_tensor_memory ? 0u : 6u};
    case 5:
      return {16, MatrixElement::e2m1, in_tensor_memory ? 0u : 4u};
    default:
      return {};
    }
  default:
    return code == 1 ? TensorElements{32, MatrixElement::packed_e2m1} : TensorElements{};
  }
}

} // namespace

} // namespace emulator::EMULATOR_ISA
