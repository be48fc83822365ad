// covers: -default-stream per-thread: every host thread has a default stream of its own.
// options: -default-stream per-thread
#include "../check.cuh"

#include <thread>

__global__ void step(unsigned *state, int count, unsigned salt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    state[i] = (state[i] ^ salt) * 2654435761u + i;
}

void work(unsigned number, unsigned long long *stream_id) {
  const int count = 700, rounds = 20;
  auto values = random_values<unsigned>(count, number);
  unsigned *state = nullptr;
  CHECK(cudaMalloc(&state, count * sizeof(unsigned)));
  CHECK(cudaMemcpyAsync(state, values.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice));
  for (unsigned round = 0; round < rounds; round++)
    step<<<6, 128>>>(state, count, number + round);
  std::vector<unsigned> got(count);
  CHECK(cudaMemcpyAsync(got.data(), state, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaStreamSynchronize(0));
  for (unsigned round = 0; round < rounds; round++)
    for (int i = 0; i < count; i++)
      values[i] = (values[i] ^ (number + round)) * 2654435761u + i;
  equal("state", got, values);
  CHECK(cudaStreamGetId(0, stream_id));
  unsigned long long named = 0, legacy = 0;
  CHECK(cudaStreamGetId(cudaStreamPerThread, &named));
  CHECK(cudaStreamGetId(cudaStreamLegacy, &legacy));
  REQUIRE(named == *stream_id && legacy != *stream_id);
  CHECK(cudaFree(state));
}

int main() {
  const unsigned count = 4;
  unsigned long long ids[count + 1] = {};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; i++)
    threads.emplace_back(work, i + 1, &ids[i]);
  work(count + 1, &ids[count]);
  for (std::thread &thread : threads)
    thread.join();
  for (unsigned i = 0; i < count; i++)
    REQUIRE(ids[i] != ids[count]);
  return ok();
}
