// covers: -lineinfo: optimised code with source lines, inlined functions among them.
// options: -lineinfo
#include "../check.cuh"

__device__ __forceinline__ unsigned mix(unsigned hash, unsigned word) {
  hash ^= word;
  hash *= 16777619u;
  return hash ^ hash >> 15;
}

__device__ unsigned greatest_common_divisor(unsigned a, unsigned b) {
  while (b != 0) {
    unsigned rest = a % b;
    a = b, b = rest;
  }
  return a;
}

__global__ void hashes(const unsigned *in, unsigned *out, int words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned hash = 2166136261u;
#pragma unroll 4
  for (int k = 0; k < words; k++)
    hash = mix(hash, in[i * words + k]);
  out[2 * i] = hash;
  out[2 * i + 1] = greatest_common_divisor(hash >> 8, in[i * words] >> 8 | 1);
}

int main() {
  const int count = 192, words = 11;
  auto values = random_values<unsigned>(count * words);
  Buffer<unsigned> in(values), out(2 * count);
  hashes<<<3, 64>>>(in, out, words);
  std::vector<unsigned> expected;
  for (int i = 0; i < count; i++) {
    unsigned hash = 2166136261u;
    for (int k = 0; k < words; k++) {
      hash = (hash ^ values[i * words + k]) * 16777619u;
      hash ^= hash >> 15;
    }
    unsigned a = hash >> 8, b = values[i * words] >> 8 | 1;
    while (b) {
      unsigned rest = a % b;
      a = b, b = rest;
    }
    expected.push_back(hash), expected.push_back(a);
  }
  equal("hashes", out.host(), expected);
  return ok();
}
