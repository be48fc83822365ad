// covers: mathematical functions in double and single precision, within the errors that NVIDIA states.
#include <algorithm>

#include "../check.cuh"

const int FUNCTIONS = 16;

template <class T> __host__ __device__ void functions(T x, T *out) {
  out[0] = sin(x * 20), out[1] = cos(x * 20), out[2] = tan(x), out[3] = exp(x * 30);
  out[4] = log(fabs(x) + T(1e-3)), out[5] = pow(fabs(x) * 9, x * 7), out[6] = erf(x * 3),
  out[7] = erfc(x * 4);
  out[8] = lgamma(fabs(x) * 32 + T(3)), out[9] = tgamma(fabs(x) * 8 + T(0.5)), out[10] = atan2(x, T(0.3) - x);
  out[11] = sinh(x * 5), out[12] = tanh(x * 2), out[13] = cbrt(x * 100), out[14] = log1p(x * T(0.9));
  out[15] = asin(x);
}

template <class T> __global__ void evaluate(const T *in, T *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    functions(in[i], out + FUNCTIONS * i);
}

// sin, cos, tan, exp, log, pow, erf, erfc, lgamma, tgamma, atan2, sinh, tanh, cbrt, log1p, asin.
const double ULPS_DOUBLE[FUNCTIONS] = {2, 2, 2, 1, 1, 2, 2, 5, 4, 10, 2, 2, 2, 1, 1, 2};
const double ULPS_FLOAT[FUNCTIONS] = {2, 2, 4, 2, 1, 4, 2, 4, 6, 5, 3, 3, 2, 1, 1, 4};

// The reference is worked out in long double for double, in double for float, from the same rounded
// arguments.
template <class T, class Wide> void reference(T x, Wide *out) {
  T a[] = {x * 20,
           x * 30,
           std::fabs(x) + T(1e-3),
           std::fabs(x) * 9,
           x * 7,
           x * 3,
           x * 4,
           T(0.3) - x,
           x * 5,
           x * 2,
           x * 100,
           x * T(0.9)};
  T g[] = {std::fabs(x) * 32 + T(3), std::fabs(x) * 8 + T(0.5)}; // the products are exact, fused or not
  Wide w[FUNCTIONS] = {std::sin((Wide)a[0]),
                       std::cos((Wide)a[0]),
                       std::tan((Wide)x),
                       std::exp((Wide)a[1]),
                       std::log((Wide)a[2]),
                       std::pow((Wide)a[3], (Wide)a[4]),
                       std::erf((Wide)a[5]),
                       std::erfc((Wide)a[6]),
                       std::lgamma((Wide)g[0]),
                       std::tgamma((Wide)g[1]),
                       std::atan2((Wide)x, (Wide)a[7]),
                       std::sinh((Wide)a[8]),
                       std::tanh((Wide)a[9]),
                       std::cbrt((Wide)a[10]),
                       std::log1p((Wide)a[11]),
                       std::asin((Wide)x)};
  std::copy(w, w + FUNCTIONS, out);
}

template <class T, class Wide> void check(const double *ulps) {
  const int count = 2000;
  auto values = random_values<T>(count);
  Buffer<T> in(values), out(FUNCTIONS * count);
  evaluate<<<16, 128>>>(in.data, out.data, count);
  auto got = out.host();
  for (int i = 0; i < count; i++) {
    Wide expected[FUNCTIONS];
    reference(values[i], expected);
    for (int f = 0; f < FUNCTIONS; f++) {
      T nearest = (T)expected[f], value = got[FUNCTIONS * i + f];
      Wide ulp = std::nextafter(std::fabs(nearest), (T)INFINITY) - std::fabs(nearest);
      Wide error = std::fabs((Wide)value - expected[f]) / ulp;
      if (!(error <= ulps[f] + 0.5)) {
        std::printf("function %d of %.17g: %.17g, not %.17g: %.2f ulp\n", f, (double)values[i], (double)value,
                    (double)nearest, (double)error);
        std::exit(1);
      }
    }
  }
}

// Exact cases and the ends of the range.
__global__ void ends(double *out) {
  double zero = out[0], huge = out[1];
  out[0] = sin(zero), out[1] = exp(-huge), out[2] = exp(huge), out[3] = log(zero), out[4] = pow(zero, zero);
  out[5] = sqrt(-1 - zero), out[6] = fmod(huge, 7 + zero), out[7] = tgamma(5 + zero), out[8] = sin(huge);
}

int main() {
  check<double, long double>(ULPS_DOUBLE);
  check<float, double>(ULPS_FLOAT);
  const double huge = 1e15;
  Buffer<double> out(std::vector<double>{0, huge, 0, 0, 0, 0, 0, 0, 0});
  ends<<<1, 1>>>(out);
  auto got = out.host();
  REQUIRE(got[0] == 0 && got[1] == 0 && got[2] == INFINITY && got[3] == -INFINITY && got[4] == 1);
  REQUIRE(std::isnan(got[5]) && got[6] == std::fmod(huge, 7.0) && std::fabs(got[7] - 24) < 1e-13);
  REQUIRE(std::fabs(got[8] - std::sin(huge)) < 1e-15);
  return ok();
}
