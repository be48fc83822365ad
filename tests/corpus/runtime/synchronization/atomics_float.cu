// covers: Floating-point atomics: float, double, half2, bfloat162, a maximum made from compare-and-swap,
// 16-bit compare-and-swap.
#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../check.cuh"

struct Sums {
  float single, most;
  double wide;
  __half2 halves;
  __nv_bfloat162 brains;
  unsigned short counter, untouched;
};

__device__ void most(float *address, float value) {
  int seen = __float_as_int(*address), old;
  while (value > __int_as_float(seen)) {
    old = atomicCAS((int *)address, seen, __float_as_int(value));
    if (old == seen)
      break;
    seen = old;
  }
}

__global__ void run(Sums *sums, const float *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  atomicAdd(&sums->single, 0.5f), atomicAdd(&sums->wide, i * 0.25);
  most(&sums->most, values[i]);
  if (i < 512)
    atomicAdd(&sums->halves, __floats2half2_rn(1, 0.5f));
  if (i < 128)
    atomicAdd(&sums->brains, __floats2bfloat162_rn(1, -1));
  unsigned short seen = sums->counter, old;
  while ((old = atomicCAS(&sums->counter, seen, (unsigned short)(seen + 1))) != seen)
    seen = old;
}

int main() {
  const int count = 3000;
  auto values = random_values<float>(count);
  Buffer<float> in(values);
  Buffer<Sums> sums(1);
  sums.fill(0);
  run<<<(count + 95) / 96, 96>>>(sums, in, count);
  Sums got = sums.host()[0];
  REQUIRE(got.single == count * 0.5f);
  REQUIRE(got.wide == 0.25 * count * (count - 1) / 2);
  REQUIRE(got.most == *std::max_element(values.begin(), values.end()));
  REQUIRE(__low2float(got.halves) == 512 && __high2float(got.halves) == 256);
  REQUIRE(__low2float(got.brains) == 128 && __high2float(got.brains) == -128);
  REQUIRE(got.counter == count && got.untouched == 0);
  return ok();
}
