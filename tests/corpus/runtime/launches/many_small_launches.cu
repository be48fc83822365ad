// covers: Three thousand small launches with changing grids, blocks and arguments, in three streams.
#include "../check.cuh"

#include <algorithm>

__global__ void bump(unsigned *counts, int size, unsigned round) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size)
    counts[i] = counts[i] * 5 + round;
}

int main() {
  const int size = 96, rounds = 1000, lanes = 3;
  cudaStream_t streams[lanes];
  for (cudaStream_t &stream : streams)
    CHECK(cudaStreamCreate(&stream));
  Buffer<unsigned> counts(size * lanes);
  counts.fill(0);
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> expected(size * lanes);
  for (unsigned round = 0; round < rounds; round++)
    for (int lane = 0; lane < lanes; lane++) {
      int threads = 1 + (round * 7 + lane) % 40, blocks = 1 + (round + lane) % 3;
      bump<<<blocks, threads, 0, streams[lane]>>>(counts + lane * size, size, round);
      for (int i = 0; i < std::min(size, threads * blocks); i++)
        expected[lane * size + i] = expected[lane * size + i] * 5 + round;
    }
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  equal("counts", counts.host(), expected);
  for (cudaStream_t stream : streams)
    CHECK(cudaStreamDestroy(stream));
  return ok();
}
