#define THREADS 256

// Replaces each block's 256 numbers by their running sums. The input is gone afterwards.
extern "C" __global__ void inplace_scan(unsigned *values, unsigned count) {
  __shared__ unsigned sums[2][THREADS];
  unsigned i = blockIdx.x * THREADS + threadIdx.x;
  unsigned from = 0;
  sums[0][threadIdx.x] = i < count ? values[i] : 0;
  __syncthreads();
  for (unsigned distance = 1; distance < THREADS; distance *= 2) {
    unsigned sum = sums[from][threadIdx.x];
    if (threadIdx.x >= distance)
      sum += sums[from][threadIdx.x - distance];
    sums[1 - from][threadIdx.x] = sum;
    from = 1 - from;
    __syncthreads();
  }
  if (i < count)
    values[i] = sums[from][threadIdx.x];
}
