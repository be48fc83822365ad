// covers: asynchronous copies to shared memory: __pipeline_memcpy_async, and cuda::pipeline with two stages.
// architecture: 80
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

#include "../check.cuh"

namespace cg = cooperative_groups;

const int TILE = 128;

// Sums of neighbours; the copy of the next tile runs while this one is worked on. Copies of 4, 8 and 16
// bytes.
template <int Bytes> __global__ void primitives(const int *in, int *out, int tiles) {
  __shared__ alignas(16) int stage[2][TILE];
  const int words = Bytes / 4;
  auto fetch = [&](int tile) {
    if (threadIdx.x * words < TILE)
      __pipeline_memcpy_async(&stage[tile % 2][threadIdx.x * words], in + tile * TILE + threadIdx.x * words,
                              Bytes);
    __pipeline_commit();
  };
  fetch(0);
  for (int tile = 0; tile < tiles; tile++) {
    if (tile + 1 < tiles)
      fetch(tile + 1);
    else
      __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    out[tile * TILE + threadIdx.x] =
        stage[tile % 2][threadIdx.x] + 2 * stage[tile % 2][(threadIdx.x + 1) % TILE];
    __syncthreads();
  }
}

// The rest of a copy is filled with zeros.
__global__ void zero_filled(const int4 *in, int4 *out) {
  __shared__ int4 stage[32];
  stage[threadIdx.x] = make_int4(-1, -1, -1, -1);
  __pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], 16, threadIdx.x % 4 * 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = stage[threadIdx.x];
}

// The block's pipeline: all threads copy and all consume.
__global__ void of_block(const int *in, int *out, int tiles) {
  __shared__ alignas(16) int stage[2][TILE];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  for (int fetched = 0, tile = 0; tile < tiles; tile++) {
    for (; fetched < tiles && fetched < tile + 2; fetched++) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, stage[fetched % 2], in + fetched * TILE, cuda::aligned_size_t<16>(TILE * 4),
                         pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    out[tile * TILE + threadIdx.x] =
        stage[tile % 2][threadIdx.x] + 2 * stage[tile % 2][(threadIdx.x + 1) % TILE];
    pipeline.consumer_release();
  }
}

int main() {
  const int tiles = 5, count = tiles * TILE;
  auto values = random_values<int>(count);
  for (int &value : values)
    value %= 100000;
  Buffer<int> in(values), out(count);
  std::vector<int> expected(count);
  for (int i = 0; i < count; i++)
    expected[i] = values[i] + 2 * values[i / TILE * TILE + (i + 1) % TILE];
  primitives<4><<<1, TILE>>>(in, out, tiles);
  equal("4 bytes", out.host(), expected);
  out.fill(0);
  primitives<8><<<1, TILE>>>(in, out, tiles);
  equal("8 bytes", out.host(), expected);
  out.fill(0);
  primitives<16><<<1, TILE>>>(in, out, tiles);
  equal("16 bytes", out.host(), expected);
  out.fill(0);
  of_block<<<1, TILE>>>(in, out, tiles);
  equal("cuda::pipeline", out.host(), expected);

  zero_filled<<<1, 32>>>((const int4 *)in.data, (int4 *)out.data);
  for (int i = 0; i < 128; i++)
    expected[i] = i % 4 < 4 - i / 4 % 4 ? values[i] : 0;
  auto got = out.host();
  equal("zero filled", got.data(), expected.data(), 128);
  return ok();
}
