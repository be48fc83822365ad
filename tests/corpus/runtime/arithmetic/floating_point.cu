// covers: Single and double precision: exact operations bit by bit, rounding modes, and the mathematical
// functions within their errors.
#include "../check.cuh"

template <class T> __global__ void exact(const T *a, const T *b, T *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  T x = a[i], y = b[i];
  T *o = out + 8 * i;
  o[0] = x + y, o[1] = x - y, o[2] = x * y, o[3] = x / y;
  o[4] = fma(x, y, x), o[5] = sqrt(fabs(x)), o[6] = fmin(x, y),
  o[7] = rint(x * 100) + trunc(y * 100) + floor(x) + ceil(y);
}

template <class T> void test_exact(const char *name) {
  const int count = 4000;
  auto a = random_values<T>(count, 1), b = random_values<T>(count, 2);
  T corners[] = {0,
                 -(T)0,
                 1,
                 std::numeric_limits<T>::max(),
                 std::numeric_limits<T>::min(),
                 std::numeric_limits<T>::denorm_min(),
                 std::numeric_limits<T>::infinity(),
                 -std::numeric_limits<T>::infinity()};
  for (int i = 0; i < 64; i++)
    a[i] = corners[i % 8], b[i] = corners[i / 8];
  for (int i = 64; i < count; i++)
    a[i] *= (T)std::pow(2.0, i % 60 - 30);
  Buffer<T> x(a), y(b), out(8 * count);
  exact<<<(count + 127) / 128, 128>>>(x.data, y.data, out.data, count);
  auto got = out.host();
  for (int i = 0; i < count; i++) {
    volatile T u = a[i], v = b[i];
    T sum = std::rint(u * 100) + std::trunc(v * 100);
    sum = sum + std::floor(u), sum = sum + std::ceil(v);
    T expected[8] = {u + v,           u - v, u * v, u / v, std::fma(u, v, u), std::sqrt(std::fabs(u)),
                     std::fmin(u, v), sum};
    for (int k = 0; k < 8; k++) // every NaN is as good as any other
      if (!(std::isnan(got[8 * i + k]) && std::isnan(expected[k])) &&
          !(k == 6 && got[8 * i + k] == expected[k]))
        equal(name, &got[8 * i + k], &expected[k], 1);
  }
}

__global__ void rounded(const float *a, const float *b, float *out, int *whole, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  out[4 * i] = __fadd_rz(a[i], b[i]), out[4 * i + 1] = __fmul_ru(a[i], b[i]);
  out[4 * i + 2] = __fdiv_rd(a[i], b[i]), out[4 * i + 3] = __double2float_rn((double)a[i] * b[i]);
  whole[2 * i] = __float2int_rd(a[i] * 1000), whole[2 * i + 1] = (int)__double2ll_ru(b[i] * 1e6);
}

template <class T> __global__ void functions(const T *a, T *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  T x = a[i];
  T *o = out + 10 * i;
  o[0] = sin(x * 10), o[1] = cos(x * 10), o[2] = exp(x), o[3] = log(fabs(x) + (T)0.1),
  o[4] = pow(fabs(x) + (T)0.5, x * 3);
  o[5] = tanh(x), o[6] = atan2(x, (T)0.5), o[7] = erf(x), o[8] = cbrt(x), o[9] = hypot(x, (T)2);
}

template <class T> void test_functions(const char *name, double tolerance) {
  const int count = 2000;
  auto a = random_values<T>(count, 3);
  Buffer<T> x(a), out(10 * count);
  functions<<<16, 128>>>(x.data, out.data, count);
  std::vector<T> expected;
  for (T u : a) {
    double v = u;
    T ten = u * 10;
    for (double e :
         {std::sin((double)ten), std::cos((double)ten), std::exp(v), std::log(std::fabs(v) + (double)(T)0.1),
          std::pow((double)(T)(std::fabs(u) + (T)0.5), (double)(T)(u * 3)), std::tanh(v), std::atan2(v, 0.5),
          std::erf(v), std::cbrt(v), std::hypot(v, 2.0)})
      expected.push_back((T)e);
  }
  close(name, out.host(), expected, tolerance);
}

int main() {
  test_exact<float>("float"), test_exact<double>("double");
  const int count = 1000;
  auto a = random_values<float>(count, 5), b = random_values<float>(count, 6);
  Buffer<float> x(a), y(b), out(4 * count);
  Buffer<int> whole(2 * count);
  rounded<<<8, 128>>>(x, y, out, whole, count);
  auto got = out.host();
  auto integers = whole.host();
  for (int i = 0; i < count; i++) {
    double sum = (double)a[i] + b[i], product = (double)a[i] * b[i], quotient = (double)a[i] / b[i];
    float toward_zero = (float)sum, up = (float)product, down = (float)quotient;
    if (std::fabs((double)toward_zero) > std::fabs(sum))
      toward_zero = std::nextafter(toward_zero, 0.0f);
    if (up < product)
      up = std::nextafter(up, INFINITY);
    if (down > quotient)
      down = std::nextafter(down, -INFINITY);
    float expected[4] = {toward_zero, up, down, (float)product};
    equal("rounded", &got[4 * i], expected, 4);
    int integer[2] = {(int)std::floor(a[i] * 1000), (int)std::ceil((double)b[i] * 1e6)};
    equal("whole", &integers[2 * i], integer, 2);
  }
  test_functions<float>("float functions", 2e-6), test_functions<double>("double functions", 2e-15);
  return ok();
}
