// covers: attention by warps: keys and values that cp.async brings while others are used, ldmatrix with and
// without .trans, mma.sync of half, a softmax that goes on from block to block, causal or not.
// architecture: 80
// relocation: proven
#include <cuda_fp16.h>

#include "../check.cuh"

constexpr int depth = 64, block_rows = 64, block_columns = 32, warps = 4;
constexpr int chunks = depth / 8; // of 16 bytes, of a row

__device__ unsigned shared_address(const void *p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Rows of 128 bytes whose chunks change places, so that 8 rows of a column lie in different banks.
__device__ __half *chunk_of(__half *tile, int row, int chunk) {
  return tile + row * depth + ((chunk ^ row % chunks) * 8);
}

__device__ void copy_rows(__half *tile, const __half *from, int rows) {
  for (int i = threadIdx.x; i < rows * chunks; i += blockDim.x) {
    int row = i / chunks, chunk = i % chunks;
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(chunk_of(tile, row, chunk))),
        "l"(from + row * depth + chunk * 8));
  }
  asm volatile("cp.async.commit_group;");
}

__device__ void load(unsigned (&r)[4], const __half *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}
__device__ void load_transposed(unsigned (&r)[4], const __half *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}
__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ unsigned packed(float low, float high) {
  __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<unsigned *>(&both);
}
// Of the four lanes that have a row.
__device__ float greatest(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// A block has 64 rows of q, each warp 16 of them; blockIdx.y is the head. `scale`: of scores, with log2(e).
__global__ void attention(const __half *q, const __half *k, const __half *v, __half *out, int length,
                          float scale, bool causal) {
  __shared__ __align__(128) __half queries[block_rows * depth];
  __shared__ __align__(128) __half keys[2][block_columns * depth], values[2][block_columns * depth];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  size_t head = size_t(blockIdx.y) * length * depth;
  int first_row = blockIdx.x * block_rows;
  copy_rows(queries, q + head + first_row * depth, block_rows);
  copy_rows(keys[0], k + head, block_columns);
  copy_rows(values[0], v + head, block_columns);

  unsigned a[depth / 16][4];
  float o[depth / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
  int steps = (causal ? first_row + block_rows : length) / block_columns;
  for (int step = 0; step < steps; step++) {
    int now = step % 2, column = step * block_columns;
    if (step + 1 < steps) {
      copy_rows(keys[now ^ 1], k + head + (column + block_columns) * depth, block_columns);
      copy_rows(values[now ^ 1], v + head + (column + block_columns) * depth, block_columns);
      asm volatile("cp.async.wait_group 2;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    if (step == 0)
      for (int d = 0; d < depth / 16; d++)
        load(a[d], chunk_of(queries, warp * 16 + lane % 16, 2 * d + lane / 16));

    float s[block_columns / 8][4] = {};
    for (int n = 0; n < block_columns / 16; n++)
      for (int d = 0; d < depth / 16; d++) {
        unsigned b[4];
        load(b, chunk_of(keys[now], n * 16 + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2));
        multiply(s[2 * n], a[d], b[0], b[1]);
        multiply(s[2 * n + 1], a[d], b[2], b[3]);
      }

    for (int half = 0; half < 2; half++) { // rows lane / 4 and 8 more
      int row = first_row + warp * 16 + half * 8 + lane / 4;
      float peak = most[half];
      for (int n = 0; n < block_columns / 8; n++)
        for (int e = 2 * half; e < 2 * half + 2; e++) {
          if (causal && column + n * 8 + lane % 4 * 2 + e % 2 > row)
            s[n][e] = -INFINITY;
          peak = fmaxf(peak, s[n][e]);
        }
      peak = greatest(peak);
      float shrink = exp2f((most[half] - peak) * scale), added = 0;
      most[half] = peak;
      for (int n = 0; n < block_columns / 8; n++)
        for (int e = 2 * half; e < 2 * half + 2; e++)
          added += s[n][e] = exp2f((s[n][e] - peak) * scale);
      total[half] = total[half] * shrink + added;
      for (int n = 0; n < depth / 8; n++)
        for (int e = 2 * half; e < 2 * half + 2; e++)
          o[n][e] *= shrink;
    }

    for (int m = 0; m < block_columns / 16; m++) {
      unsigned p[4] = {packed(s[2 * m][0], s[2 * m][1]), packed(s[2 * m][2], s[2 * m][3]),
                       packed(s[2 * m + 1][0], s[2 * m + 1][1]), packed(s[2 * m + 1][2], s[2 * m + 1][3])};
      for (int n = 0; n < depth / 16; n++) {
        unsigned b[4];
        load_transposed(b, chunk_of(values[now], m * 16 + lane % 16, 2 * n + lane / 16));
        multiply(o[2 * n], p, b[0], b[1]);
        multiply(o[2 * n + 1], p, b[2], b[3]);
      }
    }
    __syncthreads();
  }

  for (int half = 0; half < 2; half++) {
    float whole = sum(total[half]);
    int row = first_row + warp * 16 + half * 8 + lane / 4;
    for (int n = 0; n < depth / 8; n++)
      *reinterpret_cast<unsigned *>(out + head + size_t(row) * depth + n * 8 + lane % 4 * 2) =
          packed(o[n][2 * half] / whole, o[n][2 * half + 1] / whole);
  }
}

int main() {
  const int heads = 2, length = 192;
  const size_t count = size_t(heads) * length * depth;
  std::vector<__half> given[3];
  std::vector<double> numbers[3];
  for (unsigned i = 0; i < 3; i++)
    for (float x : random_values<float>(count, i + 1)) {
      given[i].push_back(__float2half(2 * x));
      numbers[i].push_back(__half2float(given[i].back()));
    }
  Buffer<__half> q(given[0]), k(given[1]), v(given[2]);
  const double scale = 1 / std::sqrt(double(depth));
  for (bool causal : {false, true}) {
    Buffer<__half> out(count);
    out.fill(0xff);
    attention<<<dim3(length / block_rows, heads), 32 * warps>>>(q, k, v, out, length,
                                                                float(scale * 1.4426950408889634), causal);
    CHECK(cudaDeviceSynchronize());
    std::vector<float> found;
    for (__half x : out.host())
      found.push_back(__half2float(x));
    std::vector<float> expected(count);
    for (int head = 0; head < heads; head++)
      for (int row = 0; row < length; row++) {
        const double *keys = &numbers[1][size_t(head) * length * depth];
        const double *values = &numbers[2][size_t(head) * length * depth];
        size_t at = (size_t(head) * length + row) * depth;
        std::vector<double> sums(depth);
        double total = 0;
        for (int column = 0; column < (causal ? row + 1 : length); column++) {
          double score = 0;
          for (int d = 0; d < depth; d++)
            score += numbers[0][at + d] * keys[column * depth + d];
          double weight = std::exp(score * scale);
          total += weight;
          for (int d = 0; d < depth; d++)
            sums[d] += weight * values[column * depth + d];
        }
        for (int d = 0; d < depth; d++)
          expected[at + d] = float(sums[d] / total);
      }
    close(causal ? "causal" : "whole", found, expected, 4e-3);
  }
  std::puts("ok");
}
