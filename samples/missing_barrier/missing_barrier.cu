// target: compute_75, PTX 7.0, with lines
// Running sums inside each block. A barrier is missing, so the kernel is wrong, and yet mostly right: what a
// warp reads, warps before it wrote, and those tend to be ahead.
extern "C" __global__ void running_sums(const int *input, int *output) {
  __shared__ int warp_sums[32];
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = input[at];
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    int before = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance)
      sum += before;
  }
  if (lane == 31)
    warp_sums[warp] = sum;
  // Here __syncthreads() is missing.
  for (unsigned other = 0; other < warp; other++)
    sum += warp_sums[other];
  output[at] = sum;
}
