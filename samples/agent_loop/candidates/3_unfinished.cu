#define THREADS 256

// As 4_warps.cu, before it compiled.
extern "C" __global__ void inplace_scan(unsigned *values, unsigned count) {
  __shared__ unsigned warp_sums[THREADS / 32];
  unsigned i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned sum = i < count ? values[i] : 0;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    unsigned before = __shfl_up_sync(0xffffffffu, sum, distance);
    sum += lane >= distance ? before : 0;
  }
  if (lane == 31)
    warp_sums[warp] = sum;
  __syncthreads() for (unsigned other = 0; other < warp; other++) sum += warp_sums[other];
  if (i < count)
    values[i] = sum;
}
