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

// c = a * b with the matrix instructions of a warp: tiles of 64 x 64, a quarter for each of four warps. The
// columns of b lie one after the other.
template <class T, int depth, class Sum, class Multiply>
__device__ void matrix_product(const T *a, const T *b, Sum *c, int n, Multiply multiply) {
  __shared__ __align__(16) T left[64][depth + 16 / sizeof(T)], right[64][depth + 16 / sizeof(T)];
  constexpr int vector = 16 / sizeof(T), step = 32 / sizeof(T);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
  Sum sum[2][4][4] = {};
  for (int at = 0; at < n; at += depth) {
    for (int i = threadIdx.x; i < 64 * depth / vector; i += blockDim.x) {
      int y = i / (depth / vector), x = i % (depth / vector) * vector;
      *(int4 *)&left[y][x] = *(const int4 *)&a[(blockIdx.y * 64 + y) * n + at + x];
      *(int4 *)&right[y][x] = *(const int4 *)&b[(blockIdx.x * 64 + y) * n + at + x];
    }
    __syncthreads();
    for (int k = 0; k < depth; k += step) {
      unsigned x[2][4], y[2][4];
      auto load = [](unsigned (&r)[4], const void *p) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"((unsigned)__cvta_generic_to_shared(p)));
      };
      for (int i = 0; i < 2; ++i) {
        load(x[i], &left[row + 16 * i + lane % 16][k + lane / 16 * vector]);
        load(y[i], &right[column + 16 * i + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * vector]);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          multiply(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e)
        c[(blockIdx.y * 64 + row + 16 * i + lane / 4 + e / 2 * 8) * n + blockIdx.x * 64 + column + 8 * j +
          lane % 4 * 2 + e % 2] = sum[i][j][e];
}
extern "C" __global__ void matmul_half(const unsigned short *a, const unsigned short *b, float *c, int n) {
  auto multiply = [](float (&d)[4], const unsigned (&x)[4], unsigned y, unsigned z) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y), "r"(z));
  };
  matrix_product<unsigned short, 32>(a, b, c, n, multiply);
}
extern "C" __global__ void matmul_bytes(const signed char *a, const signed char *b, int *c, int n) {
  auto multiply = [](int (&d)[4], const unsigned (&x)[4], unsigned y, unsigned z) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y), "r"(z));
  };
  matrix_product<signed char, 64>(a, b, c, n, multiply);
}
