// covers: Least-significant-digit radix sort, stable: ballots rank keys inside warps, counts are scanned on
// the device.
#include <algorithm>

#include "../check.cuh"

const int BLOCK = 256, DIGITS = 16;

// counts[digit][block]; ranks[i]: the place of key i among the keys of its block with the same digit.
__global__ void count(const unsigned *keys, unsigned *counts, unsigned *ranks, int shift) {
  __shared__ unsigned warp_counts[BLOCK / 32][DIGITS];
  int i = blockIdx.x * BLOCK + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned digit = keys[i] >> shift & (DIGITS - 1), mine = 0;
  for (unsigned d = 0; d < DIGITS; d++) {
    unsigned same = __ballot_sync(~0u, digit == d);
    if (lane == 0)
      warp_counts[warp][d] = __popc(same);
    if (digit == d)
      mine = __popc(same & ((1u << lane) - 1));
  }
  __syncthreads();
  for (int w = 0; w < warp; w++)
    mine += warp_counts[w][digit];
  ranks[i] = mine;
  if (threadIdx.x < DIGITS) {
    unsigned sum = 0;
    for (int w = 0; w < BLOCK / 32; w++)
      sum += warp_counts[w][threadIdx.x];
    counts[threadIdx.x * gridDim.x + blockIdx.x] = sum;
  }
}

__global__ void scan(unsigned *counts, int total) {
  __shared__ unsigned sums[1024];
  unsigned value = threadIdx.x < total ? counts[threadIdx.x] : 0;
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int step = 1; step < 1024; step *= 2) {
    unsigned left = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += left;
    __syncthreads();
  }
  if (threadIdx.x < total)
    counts[threadIdx.x] = sums[threadIdx.x] - value;
}

__global__ void scatter(const unsigned *in, unsigned *out, const unsigned *counts, const unsigned *ranks,
                        int shift) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  out[counts[(in[i] >> shift & (DIGITS - 1)) * gridDim.x + blockIdx.x] + ranks[i]] = in[i];
}

int main() {
  const int size = 16 * 1024, blocks = size / BLOCK;
  auto keys = random_values<unsigned>(size);
  Buffer<unsigned> a(keys), b(size), counts(DIGITS * blocks), ranks(size);
  for (int shift = 0; shift < 32; shift += 4) {
    unsigned *from = shift % 8 ? b : a, *to = shift % 8 ? a : b;
    count<<<blocks, BLOCK>>>(from, counts, ranks, shift);
    scan<<<1, 1024>>>(counts, DIGITS * blocks);
    scatter<<<blocks, BLOCK>>>(from, to, counts, ranks, shift);
  }
  std::sort(keys.begin(), keys.end());
  equal("radix sort", a.host(), keys);
  return ok();
}
