// Several instructions as one step, where the last alone reads what the others give: a product and the fused
// multiply-add that adds it, and two loads from shared memory and the multiply-add of what they load; a chain
// of those without a stop. Stencils and products of matrices consist of little else.
#include "exec/operations/addressing.hpp"
#include "exec/operations/float_functions.hpp"
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace emulator::EMULATOR_ISA {

namespace {

// a * b + c * d. The row of the first product is not written.
template <typename T> const Instruction *two_products(Warp &w, const Instruction *i) {
  Output<T> out(w, i[1].destination);
  T *to = out.row;
  const T *a = w.row<T>(i->a), *b = w.row<T>(i->b);
  const T *c = w.row<T>(i[1].a), *d = w.row<T>(i[1].b);
  EACH_LANE(l)
  to[l] = FusedMultiplyAdd::apply<T>(c[l], d[l], MultiplyFloat::apply<T>(a[l], b[l]));
  return finish(w, i + 1, out);
}

} // namespace

#if defined(__AVX2__) && defined(__FMA__)
namespace {

inline __m256 read(const f32 *from) { return _mm256_loadu_ps(from); }
inline __m256d read(const f64 *from) { return _mm256_loadu_pd(from); }
inline __m256 read_one(const f32 *from) { return _mm256_broadcast_ss(from); }
inline __m256d read_one(const f64 *from) { return _mm256_broadcast_sd(from); }
inline __m256 multiply_add(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256d multiply_add(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
// A NaN stays one through a sum, so it is enough that the last one is canonical.
inline void write(f32 *to, __m256 sum) {
  __m256 nan = _mm256_cmp_ps(sum, sum, _CMP_UNORD_Q);
  _mm256_storeu_ps(to, _mm256_blendv_ps(sum, _mm256_set1_ps(nan_f32()), nan));
}
inline void write(f64 *to, __m256d sum) {
  __m256d nan = _mm256_cmp_pd(sum, sum, _CMP_UNORD_Q);
  _mm256_storeu_pd(to, _mm256_blendv_pd(sum, _mm256_set1_pd(nan_f64()), nan));
}

// Where the lanes of a load are, if they are known, all there and in regular pieces of shared memory.
inline const Reach *regular_reach(Warp &w, const Instruction *i) {
  const Reach *r = look_up_reach(w, i, AccessKind::load);
  return r && r->is_shared && r->active == ~u32{0} && r->pattern < Pattern::scattered ? r : nullptr;
}
inline bool is_one_place(const Reach &r) {
  return r.pattern == Pattern::uniform || r.pattern == Pattern::pieces_uniform;
}

// Where the pieces of a factor are, without the offset of the instruction.
struct Places {
  u64 piece[lanes_per_warp / lanes_of_piece];
  explicit Places(const Reach &r) {
    for (u32 p = 0; p < lanes_per_warp; p += lanes_of_piece)
      piece[p / lanes_of_piece] = r.lowest + r.offset[p];
  }
};
template <typename T, bool OnePlace>
inline auto factor(const Places &places, const Instruction *i, u32 lane) {
  const T *from =
      reinterpret_cast<const T *>(places.piece[lane / lanes_of_piece] + static_cast<u64>(i->immediate));
  if constexpr (OnePlace)
    return read_one(from);
  else
    return read(from + lane % lanes_of_piece);
}
inline bool is_inside([[maybe_unused]] const Reach &r, [[maybe_unused]] const Instruction *i) {
#ifdef EMULATOR_UNCHECKED
  return true;
#else
  return static_cast<u64>(i->immediate) + r.origin <= r.room;
#endif
}

// The chain that begins with `i`, as long as its loads are inside. Answers the last multiply-add that was
// done. All loads of a chain have their addresses where those of the first product have theirs.
template <typename T, bool OneX, bool OneY>
const Instruction *run_chain(Warp &w, const Instruction *i, const Reach &x, const Reach &y) {
  constexpr u32 at_once = 32 / sizeof(T), parts = lanes_per_warp / at_once;
  const Places at_x(x), at_y(y);
  const T *c = w.row<T>(i[2].c);
  decltype(read(c)) sum[parts];
#pragma GCC unroll 8
  for (u32 p = 0; p < parts; ++p)
    sum[p] = read(c + p * at_once);
  u64 products = 0;
  for (;; i += 3) {
    ++products;
#pragma GCC unroll 8
    for (u32 p = 0; p < parts; ++p)
      sum[p] = multiply_add(factor<T, OneX>(at_x, i, p * at_once), factor<T, OneY>(at_y, i + 1, p * at_once),
                            sum[p]);
    if (!i[2].is_carried_on || !is_inside(x, i + 3) || !is_inside(y, i + 4))
      break;
  }
  count_repeats(w, i, AccessKind::load, products);
  count_repeats(w, i + 1, AccessKind::load, products);
  T *d = w.row<T>(i[2].destination);
#pragma GCC unroll 8
  for (u32 p = 0; p < parts; ++p)
    write(d + p * at_once, sum[p]);
  return i + 2;
}

// `i` and the next are the loads. The rows that they would write are not written: nobody else reads them.
template <typename T> const Instruction *products(Warp &w, const Instruction *i) {
  const Reach *x = regular_reach(w, i), *y = regular_reach(w, i + 1);
  if (!x || !y)
    return i->inner(w, i);
  if (is_one_place(*x))
    i = is_one_place(*y) ? run_chain<T, true, true>(w, i, *x, *y) : run_chain<T, true, false>(w, i, *x, *y);
  else
    i = is_one_place(*y) ? run_chain<T, false, true>(w, i, *x, *y) : run_chain<T, false, false>(w, i, *x, *y);
  return follow(w, i);
}

} // namespace
#endif

void add_products(OperationTable &t) {
  t.add("two_products.f32", {two_products<f32>, ptx::Type::f32, {}, 0});
  t.add("two_products.f64", {two_products<f64>, ptx::Type::f64, {}, 0});
#if defined(__AVX2__) && defined(__FMA__)
  t.add("products.f32", {products<f32>, ptx::Type::f32, {}, 0});
  t.add("products.f64", {products<f64>, ptx::Type::f64, {}, 0});
#endif
}

} // namespace emulator::EMULATOR_ISA
