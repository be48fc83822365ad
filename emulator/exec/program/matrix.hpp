// A product of matrices that the lanes of a warp hold together: D = A * B + C. Where its elements are is one
// table, made when the instruction is lowered (lowering/matrix/fragment.hpp).
#pragma once

#include <cstdint>

namespace emulator {

// Those of 6 bits are in the low bits of a byte, e2m1 in its middle; packed_e2m1 has two in a byte.
enum class MatrixElement : uint8_t {
  f16,
  bf16,
  tf32,
  f64,
  e4m3,
  e5m2,
  e3m2,
  e2m3,
  e2m1,
  packed_e2m1,
  s8,
  u8,
  s4,
  u4,
  b1
};
// Of an element inside a register.
constexpr uint32_t bits_of_element(MatrixElement element) {
  switch (element) {
  case MatrixElement::f64:
    return 64;
  case MatrixElement::tf32:
    return 32;
  case MatrixElement::f16:
  case MatrixElement::bf16:
    return 16;
  case MatrixElement::packed_e2m1:
  case MatrixElement::s4:
  case MatrixElement::u4:
    return 4;
  case MatrixElement::b1:
    return 1;
  default:
    return 8;
  }
}
// What a block of elements is multiplied by.
enum class MatrixScale : uint8_t { none, ue8m0, ue4m3 };

// One register of a fragment, at its first lane's first element.
struct MatrixTile {
  uint8_t row = 0;
  uint8_t column = 0;
};

// Lane l holds in register r the elements (tile[r].row + l / 4, tile[r].column + l % 4 * step + e), e <
// elements. B is kept with its columns as rows. A column of .b1 is a word of 32 elements.
struct Fragment {
  static constexpr uint32_t most_registers = 128;
  uint8_t registers = 0; // in the operand; those after `distinct` hold the same again
  uint8_t distinct = 0;
  uint8_t elements = 1; // of a register
  uint8_t step = 1;
  MatrixTile tile[most_registers];
};

struct MatrixForm {
  uint32_t m = 0, n = 0, k = 0;
  MatrixElement a_element = MatrixElement::f16, b_element = MatrixElement::f16;
  Fragment a, b, c, d;
  bool half_c = false, half_d = false; // f16, not f32
  bool saturate = false;               // integers: clamp the sum
  bool and_bits = false;               // .b1: and, not exclusive or
  // Sparse: a row of A holds half of its elements, and metadata says which. Of four lanes that are neighbours
  // the selector names those that have it.
  bool sparse = false;
  uint8_t selector = 0;
  MatrixScale scale = MatrixScale::none;
  uint8_t scales = 0; // factors of a row of A and of a column of B, each for as many elements
  // wgmma: four warps, each with 16 rows of A. What is shared is in memory, where a descriptor says; its
  // fragment is one of tiles, not of registers.
  bool of_warpgroup = false;
  bool shared_a = false, shared_b = false;
  bool columns_a = false, columns_b = false; // the elements of a column lie side by side
  bool negated = false;                      // the product

  uint32_t held_k() const { return sparse ? k / 2 : k; } // elements that a row of A holds
};

} // namespace emulator
