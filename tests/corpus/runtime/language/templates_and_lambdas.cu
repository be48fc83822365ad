// covers: kernels that are templates of types, values and packs; extended lambdas as arguments.
// options: --extended-lambda
#include "../check.cuh"

template <class F> __global__ void for_each(int count, F f) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    f(i);
}

template <class T, int Degree> struct Polynomial {
  T coefficients[Degree + 1];
  __host__ __device__ T operator()(T x) const {
    T y = coefficients[Degree];
    for (int k = Degree - 1; k >= 0; k--)
      y = y * x + coefficients[k];
    return y;
  }
};

template <class T, int Degree> __global__ void evaluate(Polynomial<T, Degree> f, const T *x, T *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = f(x[i]);
}

template <class... Ts> __global__ void sizes(int *out, Ts... values) {
  int k = 0;
  ((out[k++] = (int)sizeof(values) * 1000 + (int)values), ...);
}

template <class T, class F> __device__ T fold(const T *values, int count, T first, F f) {
  for (int i = 0; i < count; i++)
    first = f(first, values[i]);
  return first;
}

__global__ void folds(const int *values, int count, int *out) {
  int offset = count;
  out[0] = fold(values, count, 0, [](int a, int b) { return a + b; });
  out[1] = fold(values, count, 1 << 30, [](int a, int b) { return a < b ? a : b; });
  out[2] = fold(values, count, 0, [=](int a, int b) { return a ^ (b + offset); });
}

struct Settings {
  int shift, mask;
};

template <class T, int Degree> void check_polynomial() {
  Polynomial<T, Degree> f;
  for (int k = 0; k <= Degree; k++)
    f.coefficients[k] = T(k * 3 - 4);
  std::vector<T> x(128), y(128);
  for (int i = 0; i < 128; i++)
    x[i] = T(i % 9) - T(4), y[i] = f(x[i]); // whole numbers: exact in every type
  Buffer<T> in(x), out(128);
  evaluate<<<2, 64>>>(f, in.data, out.data);
  equal("polynomial", out.host(), y);
}

int main() {
  const int count = 1000;
  auto values = random_values<int>(count);
  for (int &value : values)
    value %= 1000;
  Buffer<int> in(values), out(count), few(4);
  int factor = 3;
  Settings settings = {2, 0xff};
  int *from = in, *to = out;
  for_each<<<3, 64>>>(count, [=] __device__(int i) { to[i] = from[i] * factor; });
  for_each<<<3, 64>>>(count, [=] __device__(int i) { to[i] = (to[i] >> settings.shift) & settings.mask; });
  auto both = [=] __host__ __device__(int i) { return i * i - factor; };
  for_each<<<3, 64>>>(count, [=] __device__(int i) { to[i] += both(i); });
  std::vector<int> expected(count);
  for (int i = 0; i < count; i++)
    expected[i] = ((values[i] * 3 >> 2) & 0xff) + both(i);
  equal("lambdas", out.host(), expected);

  check_polynomial<int, 0>(), check_polynomial<float, 3>(), check_polynomial<double, 7>();
  check_polynomial<long long, 5>(), check_polynomial<short, 2>();

  sizes<<<1, 1>>>(few.data, 'a', (short)2, 3.5f, 4.5);
  equal("sizes", few.host(), {1097, 2002, 4003, 8004});

  folds<<<1, 1>>>(in, count, few);
  int sum = 0, low = 1 << 30, mixed = 0;
  for (int value : values)
    sum += value, low = value < low ? value : low, mixed ^= value + count;
  auto got = few.host();
  REQUIRE(got[0] == sum && got[1] == low && got[2] == mixed);
  return ok();
}
