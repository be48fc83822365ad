// covers: cuda::barrier in shared memory: arrive and wait apart, leaving it, producers and consumers.
// architecture: 80
#include <cuda/barrier>
#include <cuda/std/utility>

#include "../check.cuh"

using Barrier = cuda::barrier<cuda::thread_scope_block>;

// Each phase turns the block's values by one place. The token lets work be done between arriving and waiting.
__global__ void turn(const int *in, int *out, int *between, int phases) {
  __shared__ int values[2][96];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  int i = threadIdx.x, alone = 0;
  if (i == 0)
    init(&barrier, blockDim.x);
  values[0][i] = in[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (int phase = 0; phase < phases; phase++) {
    values[(phase + 1) % 2][(i + 1) % blockDim.x] = values[phase % 2][i];
    Barrier::arrival_token token = barrier.arrive();
    alone += i * phase;
    barrier.wait(cuda::std::move(token));
  }
  out[blockIdx.x * blockDim.x + i] = values[phases % 2][i];
  between[blockIdx.x * blockDim.x + i] = alone;
}

// The first warp writes, the others read: two barriers hand one buffer back and forth.
__global__ void hand_over(const int *in, int *sums, int rounds) {
  __shared__ int buffer[32];
  __shared__ Barrier full, empty;
  if (threadIdx.x == 0)
    init(&full, blockDim.x), init(&empty, blockDim.x);
  __syncthreads();
  int sum = 0;
  if (threadIdx.x < 32) {
    for (int round = 0; round < rounds; round++) {
      buffer[threadIdx.x] = in[round * 32 + threadIdx.x];
      (void)full.arrive();
      empty.arrive_and_wait();
    }
  } else {
    for (int round = 0; round < rounds; round++) {
      full.arrive_and_wait();
      sum = sum * 5 + buffer[(threadIdx.x + round) % 32];
      (void)empty.arrive();
    }
    sums[threadIdx.x - 32] = sum;
  }
}

// Threads leave one by one; those that stay no longer wait for them.
__global__ void leave(int *left) {
  __shared__ Barrier barrier;
  __shared__ int there;
  if (threadIdx.x == 0)
    init(&barrier, blockDim.x), there = 0;
  __syncthreads();
  for (int phase = 0; phase < 4; phase++) {
    if (threadIdx.x % 4 < phase) {
      barrier.arrive_and_drop();
      return;
    }
    atomicAdd(&there, 1);
    barrier.arrive_and_wait();
    if (threadIdx.x == 3)
      left[phase] = there;
    barrier.arrive_and_wait();
  }
}

int main() {
  const int threads = 96, blocks = 3, phases = 7;
  auto values = random_values<int>(blocks * threads);
  Buffer<int> in(values), out(values.size()), between(values.size());
  turn<<<blocks, threads>>>(in, out, between, phases);
  std::vector<int> expected(values.size()), alone;
  for (int i = 0; i < blocks * threads; i++) {
    expected[i / threads * threads + (i + phases) % threads] = values[i];
    alone.push_back(i % threads * phases * (phases - 1) / 2);
  }
  equal("turned", out.host(), expected);
  equal("between", between.host(), alone);

  Buffer<int> sums(64), left(4);
  hand_over<<<1, 96>>>(in, sums, 9);
  std::vector<int> totals(64);
  for (int i = 0; i < 64; i++)
    for (int round = 0; round < 9; round++)
      totals[i] = int(unsigned(totals[i]) * 5u + unsigned(values[round * 32 + (i + round) % 32]));
  equal("handed over", sums.host(), totals);

  leave<<<1, 64>>>(left);
  equal("left", left.host(), {64, 64 + 48, 64 + 48 + 32, 64 + 48 + 32 + 16});
  return ok();
}
