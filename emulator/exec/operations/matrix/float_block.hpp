// Sums of products in blocks of 8 columns, each added with one rounding to nearest.
#pragma once

#ifdef __FMA__
#include <immintrin.h>
#endif

#include "exec/operations/shapes.hpp"

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

} // namespace

} // namespace emulator::EMULATOR_ISA
