// Products by wgmma, for benchmarks/emulator.py; warpgroups.ptx is made from it: nvcc -ptx -arch=compute_90a
// warpgroups.cu

// Rows of 64 bytes: 64 of A and 64 of B make 64 x 64 of C. In shared memory 16 bytes of a row follow those of
// the row above, so that eight rows are 128 bytes; the next 16 bytes of all rows follow after 1,024.
constexpr int side = 64, row_bytes = 64, chunks = row_bytes / 16;

__device__ unsigned long long descriptor(const void *tile, int k) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + k * 2 * side * 16;
  return address / 16 | 64ull << 16 | 8ull << 32;
}

#define FOUR(kind, d, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define SIXTEEN(kind, d, i)                                                                                  \
  FOUR(kind, d, i), FOUR(kind, d, i + 4), FOUR(kind, d, i + 8), FOUR(kind, d, i + 12)
#define SUMS                                                                                                 \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "    \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1"

// B's columns are rows in memory, of n elements as those of A.
template <typename Sum, typename Multiply>
__device__ void product(const char *a, const char *b, Sum *c, int n, int bytes_of_n, Multiply multiply) {
  __shared__ __align__(128) uint4 left[chunks * side], right[chunks * side];
  Sum d[32] = {};
  for (int at = 0; at < bytes_of_n; at += row_bytes) {
    for (int i = threadIdx.x; i < chunks * side; i += blockDim.x) {
      int row = i / chunks, chunk = i % chunks;
      left[chunk * side + row] =
          *reinterpret_cast<const uint4 *>(a + (blockIdx.y * side + row) * bytes_of_n + at + chunk * 16);
      right[chunk * side + row] =
          *reinterpret_cast<const uint4 *>(b + (blockIdx.x * side + row) * bytes_of_n + at + chunk * 16);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < chunks / 2; ++k)
      multiply(d, descriptor(left, k), descriptor(right, k));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  int lane = threadIdx.x % 32, row = blockIdx.y * side + threadIdx.x / 32 * 16 + lane / 4;
  for (int i = 0; i < 32; ++i)
    c[(row + i / 2 % 2 * 8) * n + blockIdx.x * side + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

extern "C" __global__ void matmul_half_warpgroup(const char *a, const char *b, float *c, int n) {
  product(a, b, c, n, 2 * n, [](float (&d)[32], unsigned long long x, unsigned long long y) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " SUMS ", 1, 1, 0, 0;"
                 : SIXTEEN("+f", d, 0), SIXTEEN("+f", d, 16)
                 : "l"(x), "l"(y)
                 : "memory");
  });
}
extern "C" __global__ void matmul_bytes_warpgroup(const char *a, const char *b, int *c, int n) {
  product(a, b, c, n, n, [](int (&d)[32], unsigned long long x, unsigned long long y) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 " SUMS ";"
                 : SIXTEEN("+r", d, 0), SIXTEEN("+r", d, 16)
                 : "l"(x), "l"(y)
                 : "memory");
  });
}
