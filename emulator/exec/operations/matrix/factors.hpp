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

// `lines` of `length` elements, those of a line `along` apart, times the factors of their blocks, which
// factor(line, block) gives. False where T does not hold one of them.
template <typename T, typename Factor>
bool scale_blocks(const f32 *from, T *to, u32 lines, u32 length, u32 across, u32 along, u32 blocks,
                  Factor factor) {
  auto is_finite = [](T x) { return AbsoluteFloat::apply<T>(x) <= std::numeric_limits<T>::max(); };
  bool fits = true;
  for (u32 line = 0; line < lines; ++line)
    for (u32 block = 0; block < blocks; ++block) {
      T of_block = factor(line, block);
      for (u32 p = block * length / blocks; p < (block + 1) * length / blocks; ++p) {
        T value = from[line * across + p * along], scaled = value * of_block;
        to[line * across + p * along] = scaled;
        fits &= is_finite(scaled) || !is_finite(value) || !is_finite(of_block);
      }
    }
  return fits;
}

// Each product, with the factors of its blocks, is exact in f64; mostly f32 holds what it is a product of.
inline void multiply_scaled(Warp &w, const Instruction *i, const MatrixForm &form, const uint32_t *more,
                            const f32 *a, const f32 *b, f32 *c) {
  u32 held = form.held_k();
  const uint32_t *registers = more + (form.sparse ? 1 : 0);
  Factors of_a(w, registers), of_b(w, registers + 3);
  of_a.check(w, i, form, "A", 2);
  of_b.check(w, i, form, "B", 4);
  auto scale = [&](auto *scaled_a, auto *scaled_b) {
    bool fits = scale_blocks(a, scaled_a, form.m, held, held, 1, form.scales, [&](u32 row, u32 block) {
      return of_a.of(form, row % 8 * 4 + 2 * of_a.thread + row / 8, block);
    });
    return scale_blocks(
               b, scaled_b, form.n, form.k, 1, form.n, form.scales,
               [&](u32 column, u32 block) { return of_b.of(form, 4 * column + of_b.thread, block); }) &&
           fits;
  };
  f32 scaled_a[most_a], scaled_b[most_a];
  if (scale(scaled_a, scaled_b))
    return multiply_all<false>(w, form, more, scaled_a, scaled_b, c);
  f64 wide_a[most_a], wide_b[most_a];
  scale(wide_a, wide_b);
  u8 selected[most_a];
  if (form.sparse)
    select_columns(w, form, more, selected);
  multiply_wide(wide_a, form.sparse ? selected : nullptr, wide_b, c, form.m, form.n, held);
}

} // namespace

} // namespace emulator::EMULATOR_ISA
