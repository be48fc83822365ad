// What benchmarks/emulator.py runs; kernels.ptx is made from it: nvcc -ptx -arch=compute_80 kernels.cu
extern "C" __global__ void fma_chain(float *out, float a, float b, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = static_cast<float>(i);
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int k = 0; k < 64; ++k)
      x = fmaf(x, a, b);
  }
  out[i] = x;
}

extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = a * x[i] + y[i];
}

template <int tile> __device__ void product(const float *a, const float *b, float *c, int n) {
  __shared__ float left[tile][tile], right[tile][tile];
  int column = blockIdx.x * tile + threadIdx.x, row = blockIdx.y * tile + threadIdx.y;
  float sum = 0;
  for (int at = 0; at < n; at += tile) {
    left[threadIdx.y][threadIdx.x] = a[row * n + at + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      sum = fmaf(left[threadIdx.y][k], right[k][threadIdx.x], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}
extern "C" __global__ void matmul16(const float *a, const float *b, float *c, int n) {
  product<16>(a, b, c, n);
}
extern "C" __global__ void matmul32(const float *a, const float *b, float *c, int n) {
  product<32>(a, b, c, n);
}

extern "C" __global__ void gather(const float *x, const int *order, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[order[i]];
}

// Half of the lanes take each side, and each lane has another number of turns.
extern "C" __global__ void divergent(const int *order, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = order[i];
  int steps = 0;
  while (value != 1 && steps < n) {
    if (value & 1)
      value = value * 3 + 1;
    else
      value >>= 1;
    ++steps;
  }
  y[i] = static_cast<float>(steps);
}

// Bins of a block in shared memory, from bytes; then those of the grid.
extern "C" __global__ void histogram(const unsigned char *bytes, unsigned *bins, int n) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&own[bytes[i]], 1);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

// Sums of warps by shuffles, of blocks by shared memory.
extern "C" __global__ void reduce(const float *x, float *y, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float v = x[i];
    for (int d = 16; d > 0; d >>= 1)
      v += __shfl_xor_sync(0xffffffff, v, d);
    sum += v;
  }
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < blockDim.x / 32; ++k)
      sum += part[k];
    y[blockIdx.x] = sum;
  }
}

// One option a block: a value for each step of time, two barriers between steps.
extern "C" __global__ void lattice(const float *x, float *y, int steps) {
  __shared__ float value[257];
  int t = threadIdx.x;
  value[t] = x[blockIdx.x * blockDim.x + t];
  if (t == 0)
    value[blockDim.x] = 0;
  __syncthreads();
  for (int k = steps; k > 0; --k) {
    float next = 0.5f * value[t + 1] + 0.49f * value[t];
    __syncthreads();
    if (t < k)
      value[t] = next;
    __syncthreads();
  }
  y[blockIdx.x * blockDim.x + t] = value[t];
}

// Atomic operations of all threads on few words of global memory.
extern "C" __global__ void atomics(unsigned *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < n; ++k) {
    atomicAdd(&bins[i % 64], 1);
    atomicMax(&bins[64 + (i + k) % 256], i);
  }
}
