// Each number takes a step of a linear congruential generator.
extern "C" __global__ void step(unsigned *values, unsigned count, unsigned seed) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = (values[i] ^ seed) * 1664525u + 1013904223u;
}

// sums[i] += left[i] + right[count - 1 - i]
extern "C" __global__ void combine(unsigned *sums, const unsigned *left, const unsigned *right,
                                   unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    sums[i] += left[i] + right[count - 1 - i];
}
