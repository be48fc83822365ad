// covers: cuda_fp16.h: conversions with every rounding, scalar and packed arithmetic, comparisons.
#include <algorithm>
#include <cuda_fp16.h>

#include "../check.cuh"

__global__ void convert(const float *in, uint16_t *out, float *back, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  __half h = __float2half(in[i]);
  out[4 * i] = __half_as_ushort(h);
  out[4 * i + 1] = __half_as_ushort(__float2half_rz(in[i]));
  out[4 * i + 2] = __half_as_ushort(__float2half_ru(in[i]));
  out[4 * i + 3] = __half_as_ushort(__int2half_rn((int)(in[i] * 1000)));
  back[i] = __half2float(h);
}

__global__ void arithmetic(const __half2 *a, const __half2 *b, __half2 *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  out[5 * i] = __hadd2(a[i], b[i]);
  out[5 * i + 1] = __hmul2(a[i], b[i]);
  out[5 * i + 2] = __hfma2(a[i], b[i], a[i]);
  out[5 * i + 3] = __hmax2(a[i], b[i]);
  out[5 * i + 4] = __halves2half2(__h2div(a[i], b[i]).x, hsqrt(__habs(a[i].y)));
}

// The host's own idea of a half: its value, and the nearest one to a number.
static double value_of(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(fraction, -24)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -value : value;
}

static uint16_t nearest(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (magnitude >= 65520)
    return sign | 0x7c00;
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  return sign |
         (uint16_t)(((exponent + 14) << 10) + (int)std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
}

int main() {
  const int count = 4096;
  auto values = random_values<float>(count);
  for (int i = 0; i < count; i++)
    values[i] *= std::pow(2.0f, i % 44 - 26);
  values[0] = 65519, values[1] = 65520, values[2] = -0.0f, values[3] = INFINITY, values[4] = 1.0f + 0x1p-11f,
  values[5] = 0x1p-25f;
  Buffer<float> in(values), back(count);
  Buffer<uint16_t> out(4 * count);
  convert<<<32, 128>>>(in, out, back, count);
  auto got = out.host();
  auto floats = back.host();
  for (int i = 0; i < count; i++) {
    uint16_t bits = nearest(values[i]), whole = nearest((int)(values[i] * 1000));
    equal("float2half", &got[4 * i], &bits, 1);
    float expected = (float)value_of(bits);
    equal("half2float", &floats[i], &expected, 1);
    double zero = value_of(got[4 * i + 1]), up = value_of(got[4 * i + 2]);
    REQUIRE(std::fabs(zero) <= std::fabs(values[i]) && up >= values[i]);
    if (std::fabs(values[i]) < 60000)
      REQUIRE(up - values[i] <= std::fmax(0x1p-24f, std::fabs(values[i]) * 0x1p-10f));
    if (std::fabs(values[i]) < 60)
      equal("int2half", &got[4 * i + 3], &whole, 1);
  }

  auto x = random_values<float>(2 * count, 2), y = random_values<float>(2 * count, 3);
  std::vector<uint16_t> a, b;
  for (int i = 0; i < 2 * count; i++)
    a.push_back(nearest(x[i])), b.push_back(nearest(y[i]));
  Buffer<uint16_t> p(a), q(b), r(10 * count);
  arithmetic<<<32, 128>>>((__half2 *)p.data, (__half2 *)q.data, (__half2 *)r.data, count);
  auto results = r.host();
  for (int i = 0; i < count; i++)
    for (int k = 0; k < 2; k++) {
      double u = value_of(a[2 * i + k]), v = value_of(b[2 * i + k]); // their products are exact
      const uint16_t *o = &results[10 * i + k];
      uint16_t expected[4] = {nearest(u + v), nearest(u * v), nearest(u * v + u), nearest(std::fmax(u, v))};
      for (int e = 0; e < 4; e++)
        equal("half2", &o[2 * e], &expected[e], 1);
      double last = k == 0 ? u / v : std::sqrt(std::fabs(u));
      REQUIRE(std::fabs(value_of(o[8]) - last) <= std::fabs(last) * 0x1p-10 || std::fabs(last) > 65000);
    }
  return ok();
}
