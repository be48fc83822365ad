// Kernels of test_kernels.py. The tests run the PTX beside this file, made by
//   nvcc -ptx -arch=sm_80 -lineinfo kernels.cu -o kernels.ptx
#include <cooperative_groups.h>
#include <cstdio>

#define KERNEL extern "C" __global__ void

KERNEL reduce(const int *values, int *sum, int n) {
  __shared__ int partial[32];
  int v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    v += values[i];
  for (int distance = 16; distance; distance >>= 1)
    v += __shfl_down_sync(~0u, v, distance);
  if ((threadIdx.x & 31) == 0)
    partial[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int distance = 16; distance; distance >>= 1)
      v += __shfl_down_sync(~0u, v, distance);
    if (threadIdx.x == 0)
      atomicAdd(sum, v);
  }
}

const int tile = 16;
KERNEL matmul(const float *a, const float *b, float *c, int n) {
  __shared__ float x[tile][tile], y[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    x[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    y[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int j = 0; j < tile; ++j)
      sum += x[threadIdx.y][j] * y[j][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

KERNEL scan(int *values) {
  extern __shared__ int s[];
  int t = threadIdx.x;
  s[t] = values[t];
  __syncthreads();
  for (int distance = 1; distance < blockDim.x; distance *= 2) {
    int v = t >= distance ? s[t - distance] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  values[t] = s[t];
}

KERNEL histogram(const unsigned char *data, int *bins, int n) {
  __shared__ int mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[data[i]], 1);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

__device__ int lock = 0;
// The lane that holds the lock leaves the loop, and would wait for the others to leave it too.
KERNEL spin_lock(volatile int *counter) {
  while (atomicCAS(&lock, 0, 1) != 0)
    ;
  *counter = *counter + 1;
  __threadfence();
  atomicExch(&lock, 0);
}

// The second warp, and the second block, wait for the first.
KERNEL wait_for_flag(volatile int *flag, int *out) {
  if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) {
    __threadfence();
    *flag = 42;
  } else {
    while (*flag == 0)
      ;
    out[blockIdx.x * blockDim.x + threadIdx.x] = *flag;
  }
}

KERNEL collatz(int *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = i, count = 0;
  if (i >= n)
    return;
  while (x > 1) {
    x = x % 2 ? 3 * x + 1 : x / 2;
    ++count;
  }
  steps[i] = count;
}

KERNEL choose(const int *which, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, r;
  if (i >= n)
    return;
  switch (which[i]) {
  case 0:
    r = i * 3;
    break;
  case 1:
    r = i ^ 77;
    break;
  case 2:
    r = i / 3;
    break;
  case 3:
    r = -i;
    break;
  case 4:
    r = i << 3;
    break;
  case 5:
    r = i * i;
    break;
  case 6:
    r = i % 5;
    break;
  default:
    r = -1;
  }
  out[i] = r;
}

struct Mixed {
  int a;
  float *p;
  double d;
  char c[5];
  short q;
};
KERNEL by_value(Mixed s, int n) {
  int i = threadIdx.x;
  if (i < n)
    s.p[i] = s.a * i + (float)s.d + s.c[i % 5] + s.q;
}

__device__ __noinline__ Mixed changed(int a, Mixed s) {
  s.a += a;
  s.c[a % 5] = a;
  return s;
}
KERNEL struct_functions(double *out, Mixed s) {
  int i = threadIdx.x;
  Mixed t = changed(i, s);
  out[i] = t.a + t.d + t.c[i % 5];
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL recursion(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

__device__ int plus_one(int x) { return x + 1; }
__device__ int square(int x) { return x * x; }
__device__ int negated(int x) { return -x; }
typedef int (*Function)(int);
__device__ Function table[3] = {plus_one, square, negated};
KERNEL function_pointers(int *out) { out[threadIdx.x] = table[threadIdx.x % 3](threadIdx.x) + 1000; }

__constant__ int constants[4] = {1, 2, 3, 4};
__device__ int variables[3] = {7, 8, 9};
__device__ int *pointer = &variables[1];
KERNEL globals(int *out) {
  out[threadIdx.x] = constants[threadIdx.x % 4] * variables[threadIdx.x % 3] + *pointer;
}

KERNEL double_math(const double *in, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  double x = in[i];
  out[4 * i] = sin(x);
  out[4 * i + 1] = exp(x);
  out[4 * i + 2] = log(fabs(x));
  out[4 * i + 3] = pow(fabs(x), 1.5) + x / 3.7;
}

KERNEL lanes(unsigned *out) {
  unsigned t = threadIdx.x;
  out[t] = __ballot_sync(~0u, t % 3 == 0);
  out[32 + t] = __any_sync(~0u, t == 5) + 2 * __all_sync(~0u, t < 40);
  out[64 + t] = __shfl_xor_sync(~0u, t, 5);
  out[96 + t] = __shfl_sync(~0u, t * 2, 7, 8);
  out[128 + t] = __shfl_up_sync(~0u, t, 3);
  out[160 + t] = __match_any_sync(~0u, t / 5);
  if (t < 16)
    out[192 + t] = __activemask();
  else
    out[192 + t] = __shfl_down_sync(0xffff0000u, t, 1);
}

KERNEL block_counts(int *out) {
  int t = threadIdx.x;
  int count = __syncthreads_count(t % 3 == 0);
  int all = __syncthreads_and(t < 1000);
  int any = __syncthreads_or(t == 77);
  out[t] = count * 4 + all * 2 + any;
}

KERNEL local_array(int *out, int k) {
  int a[20];
  for (int i = 0; i < 20; i++)
    a[i] = i * k + threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 20; i++)
    sum += a[(i * k + threadIdx.x) % 20] * (i + 1);
  out[threadIdx.x] = sum;
}

KERNEL grid_sync(int *a, int *b, int n) {
  auto grid = cooperative_groups::this_grid();
  int i = grid.thread_rank();
  a[i] = i;
  grid.sync();
  b[i] = a[n - 1 - i];
  grid.sync();
  a[i] = b[(i + 1) % n];
}

KERNEL say(int n) {
  if (threadIdx.x < n)
    printf("%d of %s %5.2f %lld %%\n", threadIdx.x, "block", blockIdx.x + 0.5, (long long)threadIdx.x << 40);
}

KERNEL write_far(int *a, int step) { a[threadIdx.x * step] = 1; }
KERNEL read_double(const char *a, double *out) { *out = *(const double *)(a + 4); }
