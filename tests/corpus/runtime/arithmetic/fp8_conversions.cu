// covers: cuda_fp8.h: E4M3 and E5M2, saturating conversion from float and half, and back.
#include <cuda_fp8.h>

#include "../check.cuh"

__global__ void encode(const float *in, uint8_t *e4m3, uint8_t *e5m2, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  e4m3[i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E4M3);
  e5m2[i] = __nv_cvt_float_to_fp8(in[i], __NV_SATFINITE, __NV_E5M2);
}

__global__ void decode(float *e4m3, float *e5m2) {
  int i = threadIdx.x;
  e4m3[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)i, __NV_E4M3)));
  e5m2[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)i, __NV_E5M2)));
}

static float value(int bits, int exponent_bits, int mantissa_bits, int bias) {
  int mantissa = bits & ((1 << mantissa_bits) - 1),
      exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  float magnitude = exponent ? std::ldexp(1.0f + std::ldexp((float)mantissa, -mantissa_bits), exponent - bias)
                             : std::ldexp((float)mantissa, 1 - bias - mantissa_bits);
  if (exponent_bits == 4 && (bits & 127) == 127)
    magnitude = NAN;
  if (exponent_bits == 5 && exponent == 31)
    magnitude = mantissa ? NAN : INFINITY;
  return bits & 128 ? -magnitude : magnitude;
}

// Finite value nearest to `x`, ties to the even code.
static int nearest(float x, int exponent_bits, int mantissa_bits, int bias) {
  int best = 0;
  for (int code = 0; code < 128; code++) {
    float v = value(code, exponent_bits, mantissa_bits, bias),
          b = value(best, exponent_bits, mantissa_bits, bias);
    if (!std::isfinite(v))
      continue;
    float d = std::fabs(std::fabs(x) - v), e = std::fabs(std::fabs(x) - b);
    if (d < e || (d == e && code % 2 == 0))
      best = code;
  }
  return best | (std::signbit(x) ? 128 : 0);
}

int main() {
  const int count = 4096;
  auto values = random_values<float>(count);
  for (int i = 0; i < count; i++)
    values[i] *= std::pow(2.0f, i % 40 - 20);
  values[0] = 0, values[1] = 448, values[2] = 1e9f, values[3] = -57344, values[4] = 464, values[5] = -0.0f,
  values[6] = 1.0625f;
  Buffer<float> in(values);
  Buffer<uint8_t> a(count), b(count);
  encode<<<32, 128>>>(in, a, b, count);
  auto e4m3 = a.host(), e5m2 = b.host();
  for (int i = 0; i < count; i++) {
    uint8_t x = (uint8_t)nearest(values[i], 4, 3, 7), y = (uint8_t)nearest(values[i], 5, 2, 15);
    if (e4m3[i] != x || e5m2[i] != y) {
      std::printf("%.9g: %02x %02x, not %02x %02x\n", values[i], e4m3[i], e5m2[i], x, y);
      return 1;
    }
  }
  Buffer<float> c(256), d(256);
  decode<<<1, 256>>>(c, d);
  auto p = c.host(), q = d.host();
  for (int i = 0; i < 256; i++) {
    float x = value(i, 4, 3, 7), y = value(i, 5, 2, 15);
    REQUIRE(p[i] == x || (std::isnan(p[i]) && std::isnan(x)));
    REQUIRE(q[i] == y || (std::isnan(q[i]) && std::isnan(y)));
  }
  return ok();
}
