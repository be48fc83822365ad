// covers: A matrix transposed through a padded tile of shared memory, with edges that are not whole tiles.
#include "../check.cuh"

template <class T> __global__ void transpose(const T *in, T *out, int rows, int columns) {
  __shared__ T tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x;
  for (int y = blockIdx.y * 32 + threadIdx.y; y < blockIdx.y * 32 + 32; y += blockDim.y)
    if (x < columns && y < rows)
      tile[y % 32][threadIdx.x] = in[y * columns + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  for (int y = blockIdx.x * 32 + threadIdx.y; y < blockIdx.x * 32 + 32; y += blockDim.y)
    if (x < rows && y < columns)
      out[y * rows + x] = tile[threadIdx.x][y % 32];
}

template <class T> void test(const char *name, int rows, int columns) {
  auto values = random_values<T>(rows * columns);
  Buffer<T> in(values), out(values.size());
  transpose<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(in.data, out.data, rows, columns);
  std::vector<T> expected(values.size());
  for (int y = 0; y < rows; y++)
    for (int x = 0; x < columns; x++)
      expected[x * rows + y] = values[y * columns + x];
  equal(name, out.host(), expected);
}

int main() {
  test<float>("float", 200, 333), test<double>("double", 64, 31), test<uint8_t>("byte", 77, 100);
  return ok();
}
