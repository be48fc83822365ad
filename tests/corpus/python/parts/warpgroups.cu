// Kernels in the style of Hopper: a warpgroup that only copies, through tensor maps and a ring of mbarriers, and two
// that only multiply, with wgmma. Compiled by NVRTC, without any header.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short half_bits;

struct alignas(64) TensorMap { // CUtensorMap
  unsigned char bytes[128];
};

constexpr int warpgroup = 128, consumers = 2, threads = warpgroup * (1 + consumers);
constexpr int side = 64;                   // rows of a warpgroup's tile, columns of it, depth of a stage
constexpr u32 tile_bytes = side * side * 2; // of f16: 64 rows of 128 bytes, one swizzle wide

__device__ u32 shared_address(const void *p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// mbarriers

__device__ void initialise(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ void wait(u32 barrier, u32 parity) {
  asm volatile("{ .reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again; }" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

// A ring of stages: `full` when the bytes are there, `empty` when every consumer has read them.
template <int Stages> struct Ring {
  u64 full[Stages], empty[Stages];

  __device__ void prepare() {
    for (int s = 0; s < Stages; ++s) {
      initialise(shared_address(&full[s]), 1);
      initialise(shared_address(&empty[s]), consumers);
    }
  }
  __device__ u32 fill(int step, u32 bytes) { // the mbarrier that the copies of this step complete
    wait(shared_address(&empty[step % Stages]), (step / Stages & 1) ^ 1);
    u32 barrier = shared_address(&full[step % Stages]);
    expect(barrier, bytes);
    return barrier;
  }
  __device__ void use(int step) { wait(shared_address(&full[step % Stages]), step / Stages & 1); }
  __device__ void release(int step) {
    if (threadIdx.x % warpgroup == 0)
      arrive(shared_address(&empty[step % Stages]));
  }
};

// Copies of tensors

__device__ void load(u32 to, const TensorMap &map, int column, int row, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(&map), "r"(column), "r"(row), "r"(barrier)
               : "memory");
}
__device__ void store(const TensorMap &map, int column, int row, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n"
               "cp.async.bulk.commit_group;" ::"l"(&map),
               "r"(column), "r"(row), "r"(from)
               : "memory");
}

// Products of a warpgroup

__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups> __device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}

// 64 rows of 128 bytes with the swizzle of 128 bytes: eight rows every 1,024 bytes.
__device__ u64 descriptor(u32 address) { return (address >> 4) | 64ull << 32 | 1ull << 62; }

#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
#define ACCUMULATORS                                                                                         \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "    \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

// d += a * b, or d = a * b: 64 x 64 of a depth of 16; B lies by columns.
__device__ void multiply(float (&d)[32], u64 a, u64 b, int adds) {
  asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " ACCUMULATORS
               ", %32, %33, adds, 1, 1, 0, 0; }"
               : SIXTEEN(d, 0), SIXTEEN(d, 16)
               : "l"(a), "l"(b), "r"(adds)
               : "memory");
}
// The same with A in registers, and B by rows.
__device__ void multiply_rows(float (&d)[32], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " ACCUMULATORS
               ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : SIXTEEN(d, 0), SIXTEEN(d, 16)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
               : "memory");
}

// C = A * B': A of rows of `depth` halves, B of rows of `depth` halves, C of floats. A block makes 128 x 64 of C.
constexpr int product_stages = 3;
struct ProductMemory {
  alignas(1024) unsigned char a[product_stages][consumers][tile_bytes];
  alignas(1024) unsigned char b[product_stages][tile_bytes];
  alignas(1024) float c[consumers][side][side];
  Ring<product_stages> ring;
};

extern "C" __global__ void __launch_bounds__(threads)
    product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
            const __grid_constant__ TensorMap c, int depth) {
  extern __shared__ __align__(1024) unsigned char memory[];
  ProductMemory &m = *reinterpret_cast<ProductMemory *>(memory);
  int steps = depth / side, row = blockIdx.y * consumers * side, column = blockIdx.x * side;
  if (threadIdx.x == 0) {
    m.ring.prepare();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int group = threadIdx.x / warpgroup;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int step = 0; step < steps; ++step) {
        u32 barrier = m.ring.fill(step, (consumers + 1) * tile_bytes);
        int stage = step % product_stages;
        for (int part = 0; part < consumers; ++part)
          load(shared_address(m.a[stage][part]), a, step * side, row + part * side, barrier);
        load(shared_address(m.b[stage]), b, step * side, column, barrier);
      }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  int part = group - 1, thread = threadIdx.x % warpgroup;
  float d[32];
  for (int step = 0; step < steps; ++step) {
    m.ring.use(step);
    int stage = step % product_stages;
    u64 left = descriptor(shared_address(m.a[stage][part])), right = descriptor(shared_address(m.b[stage]));
    begin_products();
    for (int k = 0; k < side / 16; ++k)
      multiply(d, left + 2 * k, right + 2 * k, step != 0 || k != 0);
    end_products();
    wait_for_products<1>();
    if (step > 0)
      m.ring.release(step - 1);
  }
  wait_for_products<0>();
  int lane = thread % 32, at = thread / 32 * 16 + lane / 4;
  for (int j = 0; j < 8; ++j)
    for (int k = 0; k < 4; ++k)
      m.c[part][at + k / 2 * 8][8 * j + lane % 4 * 2 + k % 2] = d[4 * j + k];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, 128;" ::"r"(1 + part) : "memory");
  if (thread == 0) {
    store(c, column, row + part * side, shared_address(m.c[part]));
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// Attention with a depth of 64: a block takes 128 queries of one head; the scores of the next keys are multiplied while
// those before are made probabilities and multiplied with their values.
constexpr int attention_stages = 2;
struct AttentionMemory {
  alignas(1024) unsigned char q[consumers][tile_bytes];
  alignas(1024) unsigned char k[attention_stages][tile_bytes];
  alignas(1024) unsigned char v[attention_stages][tile_bytes];
  Ring<attention_stages> keys, values;
  u64 queries;
};

__device__ float exp2_of(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ u32 halves_of(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ float of_row(float x, bool largest) { // over the four lanes that hold a row
  for (int apart = 1; apart < 4; apart *= 2) {
    float other = __shfl_xor_sync(~0u, x, apart);
    x = largest ? fmaxf(x, other) : x + other;
  }
  return x;
}

// Scores to probabilities, less the largest of each of the two rows; `shrink`: what the sums before count for now.
__device__ void normalise(float (&s)[32], float scale, float (&most)[2], float (&sum)[2], float (&shrink)[2],
                          u32 (&p)[4][4]) {
  for (int r = 0; r < 2; ++r) {
    float largest = most[r];
    for (int j = 0; j < 8; ++j)
      largest = fmaxf(largest, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
    largest = of_row(largest, true);
    shrink[r] = exp2_of((most[r] - largest) * scale);
    most[r] = largest;
    float added = 0;
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 2; ++k) {
        float &one = s[4 * j + 2 * r + k];
        one = exp2_of((one - largest) * scale);
        added += one;
      }
    sum[r] = sum[r] * shrink[r] + added;
  }
  for (int k = 0; k < 4; ++k)
    for (int r = 0; r < 4; ++r)
      p[k][r] = halves_of(s[8 * k + 2 * r], s[8 * k + 2 * r + 1]);
}

extern "C" __global__ void __launch_bounds__(threads)
    attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
              const __grid_constant__ TensorMap v, float *out, int length, float scale) {
  extern __shared__ __align__(1024) unsigned char memory[];
  AttentionMemory &m = *reinterpret_cast<AttentionMemory *>(memory);
  int steps = length / side, head = blockIdx.y * length, row = head + blockIdx.x * consumers * side;
  if (threadIdx.x == 0) {
    m.keys.prepare(), m.values.prepare();
    initialise(shared_address(&m.queries), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int group = threadIdx.x / warpgroup;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      expect(shared_address(&m.queries), consumers * tile_bytes);
      for (int part = 0; part < consumers; ++part)
        load(shared_address(m.q[part]), q, 0, row + part * side, shared_address(&m.queries));
      for (int step = 0; step < steps; ++step) {
        int stage = step % attention_stages, at = head + step * side;
        u32 barrier = m.keys.fill(step, tile_bytes);
        load(shared_address(m.k[stage]), k, 0, at, barrier);
        barrier = m.values.fill(step, tile_bytes);
        load(shared_address(m.v[stage]), v, 0, at, barrier);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  int part = group - 1, thread = threadIdx.x % warpgroup;
  u64 queries = descriptor(shared_address(m.q[part]));
  float s[32], o[32], most[2] = {-1e30f, -1e30f}, sum[2] = {0, 0}, shrink[2];
  u32 p[4][4];
  for (float &one : o)
    one = 0;
  auto score = [&](int step) {
    m.keys.use(step);
    u64 keys = descriptor(shared_address(m.k[step % attention_stages]));
    begin_products();
    for (int i = 0; i < 4; ++i)
      multiply(s, queries + 2 * i, keys + 2 * i, i != 0);
    end_products();
  };
  wait(shared_address(&m.queries), 0);
  score(0);
  wait_for_products<0>();
  m.keys.release(0);
  normalise(s, scale, most, sum, shrink, p);
  for (int step = 0; step < steps; ++step) {
    bool more = step + 1 < steps;
    if (more)
      score(step + 1);
    m.values.use(step);
    u64 values = descriptor(shared_address(m.v[step % attention_stages]));
    begin_products();
    for (int i = 0; i < 4; ++i)
      multiply_rows(o, p[i], values + 128 * i); // sixteen rows of 128 bytes
    end_products();
    u32 next[4][4];
    if (more) {
      wait_for_products<1>();
      m.keys.release(step + 1);
      normalise(s, scale, most, sum, shrink, next);
    }
    wait_for_products<0>();
    m.values.release(step);
    if (more)
      for (int i = 0; i < 32; ++i)
        o[i] *= shrink[i / 2 % 2], p[i / 8][i % 4] = next[i / 8][i % 4];
  }
  int lane = thread % 32, at = row + part * side + thread / 32 * 16 + lane / 4;
  for (int r = 0; r < 2; ++r) {
    float factor = 1 / of_row(sum[r], false);
    for (int j = 0; j < 8; ++j)
      for (int c = 0; c < 2; ++c)
        out[(at + 8 * r) * side + 8 * j + lane % 4 * 2 + c] = o[4 * j + 2 * r + c] * factor;
  }
}
