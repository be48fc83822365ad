// Products by tcgen05, for benchmarks/emulator.py; tensor_memory.ptx is made from it: nvcc -ptx
// -arch=compute_100a tensor_memory.cu

// Rows of 64 bytes: 128 of A and 128 of B make 128 x 128 of C. In shared memory 16 bytes of a row follow
// those of the row above, so that eight rows are 128 bytes; the next 16 bytes of all rows follow after 2,048.
constexpr int side = 128, row_bytes = 64, chunks = row_bytes / 16;

__device__ unsigned shared_address(const void *at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
__device__ unsigned long long descriptor(const void *tile, int k) {
  unsigned address = shared_address(tile) + k * 2 * side * 16;
  return address / 16 | static_cast<unsigned long long>(side) << 16 | 8ull << 32 | 1ull << 46;
}

// B's columns are rows in memory, of n elements as those of A.
template <typename Sum, typename Multiply>
__device__ void product(const char *a, const char *b, Sum *c, int n, int bytes_of_n, Multiply multiply) {
  __shared__ __align__(128) uint4 left[chunks * side], right[chunks * side];
  __shared__ unsigned long long done;
  __shared__ unsigned sums;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&done)) : "memory");
  if (threadIdx.x < 32)
    asm volatile(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(shared_address(&sums))
        : "memory");
  __syncthreads();
  unsigned d = sums;
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
    if (threadIdx.x == 0) {
      for (int k = 0; k < chunks / 2; ++k)
        multiply(d, descriptor(left, k), descriptor(right, k), at + k);
      asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                       shared_address(&done))
                   : "memory");
    }
    asm volatile(
        "{ .reg .pred p; wait: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra wait; }" ::"r"(
            shared_address(&done)),
        "r"(at / row_bytes % 2)
        : "memory");
  }
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  int warp = threadIdx.x / 32, row = blockIdx.y * side + threadIdx.x;
  for (int first = 0; first < side; first += 8) {
    unsigned v[8];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8]; "
                 "tcgen05.wait::ld.sync.aligned;"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]),
                   "=r"(v[7])
                 : "r"(d + (warp * 32 << 16) + first)
                 : "memory");
    for (int i = 0; i < 8; ++i)
      c[row * n + blockIdx.x * side + first + i] = *reinterpret_cast<Sum *>(&v[i]);
  }
  __syncthreads();
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(d) : "memory");
}

#define MULTIPLY(kind, type)                                                                                 \
  [](unsigned d, unsigned long long x, unsigned long long y, int adds) {                                     \
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %4, 0; tcgen05.mma.cta_group::1.kind::" kind                \
                 " [%0], %1, %2, %3, p; }" ::"r"(d),                                                         \
                 "l"(x), "l"(y), "r"(type | side / 8 << 17 | side / 16 << 24), "r"(adds)                     \
                 : "memory");                                                                                \
  }

// The types of D, A and B: f32, f16, f16 and s32, s8, s8.
extern "C" __global__ void matmul_half_tensor(const char *a, const char *b, float *c, int n) {
  product(a, b, c, n, 2 * n, MULTIPLY("f16", 1 << 4));
}
extern "C" __global__ void matmul_bytes_tensor(const char *a, const char *b, int *c, int n) {
  product(a, b, c, n, n, MULTIPLY("i8", 2 << 4 | 1 << 7 | 1 << 10));
}
