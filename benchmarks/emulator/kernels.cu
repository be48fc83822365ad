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
