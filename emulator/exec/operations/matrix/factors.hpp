// What sparse and scaled products have besides their matrices: which elements A holds, factors of blocks. The
// registers come after those of C: metadata; then for A, and for B, a word of factors, its first byte and
// thread.
#pragma once

#include "exec/operations/matrix/elements.hpp"
#include "exec/operations/matrix/loops.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

constexpr u32 most_a = 1024; // elements of A, and of a B of 8 columns

// For each element that a row of A holds, its column of the whole matrix. Four bits of metadata are two
// indices into four units: elements, pairs of elements of 4 bits, or halves of tf32.
inline void select_columns(Warp &w, const MatrixForm &form, const uint32_t *more, u8 *selected) {
  const u32 *metadata = w.row<u32>(more[0]);
  u32 bits = bits_of_element(form.a_element), held = form.held_k();
  // Of 16 bits and more, a word has 4 groups of indices of a row and 4 of the row 8 below; else it has 8 of
  // one.
  bool shared = bits >= 16;
  u32 groups = bits == 32 ? held : bits == 4 ? held / 4 : held / 2;
  u32 lanes = groups / 4;
  for (u32 row = 0; row < form.m; ++row)
    for (u32 p = 0; p < held; ++p) {
      u32 group = bits == 32 ? p : bits == 4 ? p / 4 : p / 2;
      u32 word = shared ? group / 4 : group / 8 * 2 + row / 8;
      u32 shift = shared ? row / 8 * 16 + group % 4 * 4 : group % 8 * 4;
      u32 indices = metadata[row % 8 * 4 + form.selector * lanes + word] >> shift & 15;
      u32 second = bits == 32 ? 0 : bits == 4 ? p / 2 % 2 : p % 2;
      u32 index = indices >> (2 * second) & 3;
      selected[row * held + p] = static_cast<u8>(bits == 32  ? 2 * group + index / 2
                                                 : bits == 4 ? 8 * group + 2 * index + p % 2
                                                             : 4 * group + index);
    }
}

template <bool Exact>
void multiply_all(Warp &w, const MatrixForm &form, const uint32_t *more, const f32 *a, const f32 *b, f32 *c) {
  if (!form.sparse)
    return multiply_floats<Exact>(a, b, c, form.m, form.n, form.k);
  u8 selected[most_a];
  select_columns(w, form, more, selected);
  multiply_selected<Exact>(a, selected, b, c, form.m, form.n, form.held_k());
}

// A word of factors of each lane, and which of its bytes, and of four lanes which, are those of the product.
struct Factors {
  const u32 *words;
  u32 byte, thread;
  Factors(Warp &w, const uint32_t *registers)
      : words(w.row<u32>(registers[0])), byte(w.row<u16>(registers[1])[0]),
        thread(w.row<u16>(registers[2])[0]) {}
  f32 of(const MatrixForm &form, u32 lane, u32 block) const {
    return scale_of(form.scale, words[lane] >> (8 * (byte + block)) & 0xff);
  }
  void check(Warp &w, const Instruction *i, const MatrixForm &form, const char *matrix, u32 threads) const {
    if (byte % form.scales != 0 || byte + form.scales > 4 || thread >= threads)
      fail(w, i, LaunchStatus::illegal_instruction,
           "factors of " + std::string(matrix) + " from byte " + std::to_string(byte) + " of thread " +
               std::to_string(thread) + ", which PTX does not define",
           0);
  }
};

// Each product, with the factors of its blocks, is exact in f64.
inline void multiply_scaled(Warp &w, const Instruction *i, const MatrixForm &form, const uint32_t *more,
                            const f32 *a, const f32 *b, f32 *c) {
  u32 held = form.held_k();
  const uint32_t *registers = more + (form.sparse ? 1 : 0);
  Factors of_a(w, registers), of_b(w, registers + 3);
  of_a.check(w, i, form, "A", 2);
  of_b.check(w, i, form, "B", 4);
  f64 scaled_a[most_a], scaled_b[most_a];
  for (u32 row = 0; row < form.m; ++row)
    for (u32 p = 0; p < held; ++p)
      scaled_a[row * held + p] =
          static_cast<f64>(a[row * held + p]) *
          of_a.of(form, row % 8 * 4 + 2 * of_a.thread + row / 8, p * form.scales / held);
  for (u32 p = 0; p < form.k; ++p)
    for (u32 column = 0; column < form.n; ++column)
      scaled_b[p * form.n + column] = static_cast<f64>(b[p * form.n + column]) *
                                      of_b.of(form, 4 * column + of_b.thread, p * form.scales / form.k);
  u8 selected[most_a];
  if (form.sparse)
    select_columns(w, form, more, selected);
  multiply_wide(scaled_a, form.sparse ? selected : nullptr, scaled_b, c, form.m, form.n, held);
}

} // namespace

} // namespace emulator::EMULATOR_ISA
