// covers: cuda_bf16.h: conversions and packed arithmetic.
// architecture: 80
#include <cuda_bf16.h>

#include "../check.cuh"

static uint16_t nearest_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

__global__ void kernel(const float *a, const float *b, __nv_bfloat16 *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  __nv_bfloat162 x = __float2bfloat162_rn(a[i]), y = __floats2bfloat162_rn(b[i], a[i]);
  __nv_bfloat162 sum = __hadd2(x, y), product = __hmul2(x, y), fused = __hfma2(x, y, x);
  __nv_bfloat16 *o = out + 8 * i;
  o[0] = x.x, o[1] = sum.x, o[2] = sum.y, o[3] = product.x, o[4] = product.y, o[5] = fused.x, o[6] = fused.y;
  o[7] = __hgt(x.x, y.x) ? __float2bfloat16(1.0f) : __hneg(y.x);
}

int main() {
  const int count = 3000;
  auto a = random_values<float>(count), b = random_values<float>(count, 2);
  Buffer<float> x(a), y(b);
  Buffer<uint16_t> out(8 * count);
  kernel<<<24, 128>>>(x, y, (__nv_bfloat16 *)out.data, count);
  std::vector<uint16_t> expected(8 * count);
  for (int i = 0; i < count; i++) {
    float u = widen(nearest_bf16(a[i])), v = widen(nearest_bf16(b[i]));
    uint16_t *e = &expected[8 * i];
    e[0] = nearest_bf16(u), e[1] = nearest_bf16(u + v), e[2] = nearest_bf16(u + u),
    e[3] = nearest_bf16(u * v), e[4] = nearest_bf16(u * u);
    e[5] = nearest_bf16(std::fma(u, v, u)), e[6] = nearest_bf16(std::fma(u, u, u)),
    e[7] = nearest_bf16(u > v ? 1.0f : -v);
  }
  // u * v + u is rounded twice in the reference; a tie of the first rounding may fall to the other side.
  auto got = out.host();
  for (int i = 0; i < 8 * count; i++)
    if (i % 8 == 5 || i % 8 == 6)
      REQUIRE(std::abs(got[i] - expected[i]) <= 1);
    else
      equal("bfloat16", &got[i], &expected[i], 1);
  return ok();
}
