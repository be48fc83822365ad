// covers: Tiled matrix products in float, double, half and bfloat16 (products of those two are summed in
// float).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../check.cuh"

const int TILE = 16;

template <class T, class Sum> __global__ void matmul(const T *a, const T *b, Sum *c, int n) {
  __shared__ T left[TILE][TILE], right[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  Sum sum = 0;
  for (int t = 0; t < n; t += TILE) {
    left[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; k++)
      sum = fma((Sum)left[threadIdx.y][k], (Sum)right[k][threadIdx.x], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}

template <class T, class Sum> void test(const char *name) {
  const int n = 80;
  auto x = random_values<float>(n * n, 1), y = random_values<float>(n * n, 2);
  std::vector<T> a, b;
  for (int i = 0; i < n * n; i++)
    a.push_back((T)x[i]), b.push_back((T)y[i]);
  Buffer<T> p(a), q(b);
  Buffer<Sum> r(n * n);
  matmul<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(p.data, q.data, r.data, n);
  std::vector<Sum> expected(n * n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      Sum sum = 0;
      for (int k = 0; k < n; k++)
        sum = std::fma((Sum)(float)a[i * n + k], (Sum)(float)b[k * n + j], sum);
      expected[i * n + j] = sum;
    }
  equal(name, r.host(), expected);
}

int main() {
  test<float, float>("float"), test<double, double>("double"), test<__half, float>("half"),
      test<__nv_bfloat16, float>("bfloat16");
  return ok();
}
