// covers: Host threads that allocate, copy and launch at once, each in a stream of its own; one sum for all.
#include "../check.cuh"

#include <thread>

__global__ void accumulate(const unsigned *data, int count, unsigned *sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    atomicAdd(sum, data[i]);
}

void work(unsigned number, unsigned *all, unsigned *expected) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned round = 0; round < 5; round++) {
    const int count = 300 + 17 * number + round;
    auto values = random_values<unsigned>(count, number * 100 + round);
    Buffer<unsigned> data(count), own(1);
    CHECK(cudaMemcpyAsync(data, values.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(own, 0, sizeof(unsigned), stream));
    accumulate<<<4, 128, 0, stream>>>(data, count, own);
    accumulate<<<4, 128, 0, stream>>>(data, count, all);
    unsigned got = 0, sum = 0;
    CHECK(cudaMemcpyAsync(&got, own, sizeof(got), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (unsigned value : values)
      sum += value;
    REQUIRE(got == sum);
    *expected += sum;
  }
  // Each thread has a last error of its own.
  EXPECT(cudaSetDevice(-1 - int(number)), cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError(), cudaErrorInvalidDevice);
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  const unsigned count = 6;
  Buffer<unsigned> all(1);
  all.fill(0);
  CHECK(cudaDeviceSynchronize());
  unsigned expected[count] = {}, sum = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; i++)
    threads.emplace_back(work, i, all.data, &expected[i]);
  for (std::thread &thread : threads)
    thread.join();
  CHECK(cudaGetLastError());
  for (unsigned part : expected)
    sum += part;
  REQUIRE(all.host()[0] == sum);
  return ok();
}
