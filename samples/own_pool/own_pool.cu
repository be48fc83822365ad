// A running sum of what a pool gave memory for.
extern "C" __global__ void gather(const unsigned *piece, unsigned *sums, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    sums[i] = sums[i] * 5 + piece[i];
}
