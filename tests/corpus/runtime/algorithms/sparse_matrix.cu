// covers: y = A x with A in compressed rows, one warp a row, rows of very different lengths.
#include "../check.cuh"

template <class T>
__global__ void multiply(const int *starts, const int *columns, const T *values, const T *x, T *y, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  T sum = 0;
  for (int k = starts[row] + lane; k < starts[row + 1]; k += 32)
    sum += values[k] * __ldg(&x[columns[k]]);
  for (int offset = 16; offset; offset /= 2)
    sum += __shfl_xor_sync(~0u, sum, offset);
  if (lane == 0)
    y[row] = sum;
}

template <class T> void test(const char *name) {
  const int rows = 700, width = 500;
  std::vector<int> starts = {0}, columns;
  std::vector<T> values, x(width), expected;
  for (int i = 0; i < width; i++)
    x[i] = (T)(i % 17 - 8);
  auto random = random_values<unsigned>(rows);
  for (int row = 0; row < rows; row++) {
    int length = row % 50 == 0 ? 400 : random[row] % 9;
    T sum = 0;
    for (int k = 0; k < length; k++) {
      columns.push_back((random[row] + k * 7) % width), values.push_back((T)(k % 5 + 1));
      sum += values.back() * x[columns.back()];
    }
    starts.push_back((int)columns.size()), expected.push_back(sum);
  }
  Buffer<int> s(starts), c(columns);
  Buffer<T> v(values), p(x), y(rows);
  multiply<<<(rows * 32 + 127) / 128, 128>>>(s.data, c.data, v.data, p.data, y.data, rows);
  equal(name, y.host(), expected);
}

int main() {
  test<float>("float"), test<double>("double");
  return ok();
}
