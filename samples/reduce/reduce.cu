// Each block adds up its part of the input: inside a warp by shuffles, between warps through shared memory.
extern "C" __global__ void reduce_blocks(const float *input, float *partial, unsigned count) {
  __shared__ float warp_sums[32];
  float sum = 0.0f;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    sum += input[i];
  for (unsigned distance = 16; distance > 0; distance /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0)
    warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
    for (unsigned distance = 16; distance > 0; distance /= 2)
      sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0)
      partial[blockIdx.x] = sum;
  }
}

// The same sum as a tree in dynamic shared memory, ended by one atomic addition per block.
extern "C" __global__ void reduce_atomic(const float *input, float *total, unsigned count) {
  extern __shared__ float tree[];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  tree[threadIdx.x] = i < count ? input[i] : 0.0f;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    atomicAdd(total, tree[0]);
}
