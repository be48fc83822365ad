// covers: mma.h: products of half, bfloat16, tf32, double, bytes and bits through wmma fragments.
// architecture: 80
// relocation: proven
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "../check.cuh"

using namespace nvcuda;

// The type of an element in memory.
template <class T> struct Stored {
  using type = T;
};
template <> struct Stored<wmma::precision::tf32> {
  using type = float;
};

// One warp multiplies m rows of a by n columns of b, k at a time; a by rows, b by columns, or the other way
// round.
template <class T, class Sum, int m, int n, int k, class Layout>
__global__ void product(const typename Stored<T>::type *a, const typename Stored<T>::type *b, Sum *c,
                        int depth, wmma::layout_t order) {
  using Other = typename std::conditional<std::is_same<Layout, wmma::row_major>::value, wmma::col_major,
                                          wmma::row_major>::type;
  constexpr bool by_rows = std::is_same<Layout, wmma::row_major>::value;
  wmma::fragment<wmma::matrix_a, m, n, k, T, Layout> left;
  wmma::fragment<wmma::matrix_b, m, n, k, T, Other> right;
  wmma::fragment<wmma::accumulator, m, n, k, Sum> sum;
  wmma::fill_fragment(sum, Sum(1));
  for (int at = 0; at < depth; at += k) {
    wmma::load_matrix_sync(left, by_rows ? a + at : a + at * m, by_rows ? depth : m);
    wmma::load_matrix_sync(right, by_rows ? b + at : b + at * n, by_rows ? depth : n);
    if constexpr (std::is_same<T, wmma::precision::tf32>::value) {
      for (int i = 0; i < left.num_elements; i++)
        left.x[i] = wmma::__float_to_tf32(left.x[i]);
      for (int i = 0; i < right.num_elements; i++)
        right.x[i] = wmma::__float_to_tf32(right.x[i]);
    }
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; i++)
    sum.x[i] = sum.x[i] + sum.x[i];
  wmma::store_matrix_sync(c, sum, order == wmma::mem_row_major ? n : m, order);
}

// Small integers, of which every type has all sums.
template <class T, class Sum, int m, int n, int k, class Layout> void check(const char *what, int low) {
  using Element = typename Stored<T>::type;
  const int depth = 4 * k;
  constexpr bool by_rows = std::is_same<Layout, wmma::row_major>::value;
  auto order = by_rows ? wmma::mem_row_major : wmma::mem_col_major;
  std::vector<Element> left(m * depth), right(n * depth);
  auto value = [&](int i) { return low + i * 7919 % 13 % (3 - low); };
  auto at = [&](int outer, int inner, int outers) {
    return by_rows ? outer * depth + inner : inner * outers + outer;
  };
  for (int i = 0; i < m * depth; i++)
    left[i] = Element(float(value(i)));
  for (int i = 0; i < n * depth; i++)
    right[i] = Element(float(value(i + 5)));
  Buffer<Element> a(left), b(right);
  Buffer<Sum> c(m * n);
  product<T, Sum, m, n, k, Layout><<<1, 32>>>(a, b, c, depth, order);
  std::vector<Sum> wanted(m * n);
  for (int row = 0; row < m; row++)
    for (int column = 0; column < n; column++) {
      int sum = 1;
      for (int p = 0; p < depth; p++)
        sum += int(float(left[at(row, p, m)])) * int(float(right[at(column, p, n)]));
      wanted[by_rows ? row * n + column : column * m + row] = Sum(float(2 * sum));
    }
  auto got = c.host();
  equal(what, got.data(), wanted.data(), got.size());
}

template <class Layout> void check_all() {
  check<__half, float, 16, 16, 16, Layout>("half", -1);
  check<__half, __half, 32, 8, 16, Layout>("half, half sums", -1);
  check<__half, float, 8, 32, 16, Layout>("half, 8 rows", -1);
  check<__nv_bfloat16, float, 16, 16, 16, Layout>("bfloat16", -1);
  check<wmma::precision::tf32, float, 16, 16, 8, Layout>("tf32", -1);
  check<double, double, 8, 8, 4, Layout>("double", -1);
  check<signed char, int, 16, 16, 16, Layout>("signed bytes", -1);
  check<unsigned char, int, 32, 8, 16, Layout>("bytes", 0);
}

// Bits: where rows of a differ from columns of b.
__global__ void differences(const unsigned *a, const unsigned *b, int *c) {
  wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> sum;
  wmma::fill_fragment(sum, 0);
  wmma::load_matrix_sync(left, a, 128);
  wmma::load_matrix_sync(right, b, 128);
  wmma::bmma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 8, wmma::mem_row_major);
}

void check_bits() {
  auto left = random_values<unsigned>(32), right = random_values<unsigned>(32);
  Buffer<unsigned> a(left), b(right);
  Buffer<int> c(64);
  differences<<<1, 32>>>(a, b, c);
  std::vector<int> wanted(64);
  for (int i = 0; i < 64; i++)
    for (int word = 0; word < 4; word++)
      wanted[i] += __builtin_popcount(left[i / 8 * 4 + word] ^ right[i % 8 * 4 + word]);
  auto got = c.host();
  equal("bits", got.data(), wanted.data(), got.size());
}

int main() {
  check_all<wmma::row_major>();
  check_all<wmma::col_major>();
  check_bits();
  std::printf("ok\n");
}
