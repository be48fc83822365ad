// What a product of matrices adds up. Products are exact. A sum of f32 begins with c and takes the products
// in the order of k, each added with one rounding to nearest.
#pragma once

#ifdef __FMA__
#include <immintrin.h>
#endif

#include "exec/operations/half_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

typedef f32 Lanes8 __attribute__((vector_size(32)));

// Exact: f32 holds every product, so that a product and a sum are one rounding.
template <bool Exact> [[gnu::always_inline]] inline void add_product(Lanes8 &sum, f32 a, const Lanes8 &b) {
#ifdef __FMA__
  sum = reinterpret_cast<Lanes8>(
      _mm256_fmadd_ps(_mm256_set1_ps(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(sum)));
#else
  if constexpr (Exact)
    sum = a * b + sum;
  else
    for (u32 j = 0; j < 8; ++j)
      sum[j] = __builtin_fmaf(a, b[j], sum[j]);
#endif
}

// c += a * b; m and n are multiples of 8.
template <bool Exact>
[[gnu::noinline]] void multiply_floats(const f32 *a, const f32 *b, f32 *c, u32 m, u32 n, u32 k) {
  constexpr u32 rows = 8;
  for (u32 column = 0; column < n; column += 8)
    for (u32 row = 0; row < m; row += rows) {
      Lanes8 sum[rows];
      for (u32 r = 0; r < rows; ++r)
        std::memcpy(&sum[r], c + (row + r) * n + column, sizeof sum[r]);
      for (u32 p = 0; p < k; ++p) {
        Lanes8 values;
        std::memcpy(&values, b + p * n + column, sizeof values);
        for (u32 r = 0; r < rows; ++r)
          add_product<Exact>(sum[r], a[(row + r) * k + p], values);
      }
      for (u32 r = 0; r < rows; ++r)
        std::memcpy(c + (row + r) * n + column, &sum[r], sizeof sum[r]);
    }
}

// Sparse: the p-th element that a row of A holds meets row selected[p] of B.
template <bool Exact>
[[gnu::noinline]] void multiply_selected(const f32 *a, const u8 *selected, const f32 *b, f32 *c, u32 m, u32 n,
                                         u32 held_k) {
  constexpr u32 rows = 8;
  for (u32 column = 0; column < n; column += 8)
    for (u32 row = 0; row < m; row += rows) {
      Lanes8 sum[rows];
      for (u32 r = 0; r < rows; ++r)
        std::memcpy(&sum[r], c + (row + r) * n + column, sizeof sum[r]);
      for (u32 p = 0; p < held_k; ++p)
        for (u32 r = 0; r < rows; ++r) {
          u32 at = (row + r) * held_k + p;
          Lanes8 values;
          std::memcpy(&values, b + selected[at] * n + column, sizeof values);
          add_product<Exact>(sum[r], a[at], values);
        }
      for (u32 r = 0; r < rows; ++r)
        std::memcpy(c + (row + r) * n + column, &sum[r], sizeof sum[r]);
    }
}

// The same of products that f32 does not hold; with null selected, of all rows of B.
[[gnu::noinline]] void multiply_wide(const f64 *a, const u8 *selected, const f64 *b, f32 *c, u32 m, u32 n,
                                     u32 held_k) {
  for (u32 row = 0; row < m; ++row)
    for (u32 p = 0; p < held_k; ++p) {
      f64 value = a[row * held_k + p];
      const f64 *of_b = b + (selected ? selected[row * held_k + p] : p) * n;
      f32 *sums = c + row * n;
      for (u32 column = 0; column < n; ++column)
        sums[column] = static_cast<f32>(add_to_odd<f64>(value * of_b[column], sums[column]));
    }
}

} // namespace

} // namespace emulator::EMULATOR_ISA
