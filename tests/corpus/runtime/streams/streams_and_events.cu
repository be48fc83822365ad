// covers: Streams and events: a pipeline over chunks, waits between streams, queries, times, priorities and
// flags.
#include "../check.cuh"

__global__ void scale(int *data, int count, int factor, int offset) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    data[i] = data[i] * factor + offset;
}

int main() {
  const int chunks = 6, chunk = 1500, count = chunks * chunk;
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  REQUIRE(greatest <= least);
  cudaStream_t copies, kernels, back;
  CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&kernels, cudaStreamNonBlocking, greatest));
  CHECK(cudaStreamCreate(&back));
  int priority = 100;
  unsigned flags = 100;
  CHECK(cudaStreamGetPriority(kernels, &priority));
  REQUIRE(priority == greatest);
  CHECK(cudaStreamGetFlags(copies, &flags));
  REQUIRE(flags == cudaStreamNonBlocking);
  CHECK(cudaStreamGetFlags(back, &flags));
  REQUIRE(flags == cudaStreamDefault);

  int *pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, 2 * count * sizeof(int)));
  auto values = random_values<int>(count);
  std::memcpy(pinned, values.data(), count * sizeof(int));
  Buffer<int> data(count);
  cudaEvent_t begin, end, copied[chunks], computed[chunks];
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
  CHECK(cudaEventRecord(begin, copies));
  for (int i = 0; i < chunks; i++) {
    CHECK(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&computed[i], cudaEventDisableTiming));
    int *part = data + i * chunk;
    CHECK(cudaMemcpyAsync(part, pinned + i * chunk, chunk * sizeof(int), cudaMemcpyHostToDevice, copies));
    CHECK(cudaEventRecord(copied[i], copies));
    CHECK(cudaStreamWaitEvent(kernels, copied[i], 0));
    scale<<<6, 256, 0, kernels>>>(part, chunk, 3, i);
    CHECK(cudaEventRecord(computed[i], kernels));
    CHECK(cudaStreamWaitEvent(back, computed[i]));
    CHECK(
        cudaMemcpyAsync(pinned + count + i * chunk, part, chunk * sizeof(int), cudaMemcpyDeviceToHost, back));
  }
  CHECK(cudaEventRecord(end, back));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaEventQuery(end));
  CHECK(cudaStreamQuery(back));
  CHECK(cudaStreamQuery(kernels));
  for (int i = 0; i < count; i++)
    REQUIRE(pinned[count + i] == int(3u * unsigned(values[i]) + unsigned(i / chunk)));

  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  REQUIRE(milliseconds > 0 && milliseconds < 60000);
  EXPECT(cudaEventElapsedTime(&milliseconds, copied[0], end), cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  cudaEvent_t unrecorded;
  CHECK(cudaEventCreate(&unrecorded));
  CHECK(cudaEventQuery(unrecorded));
  CHECK(cudaEventSynchronize(unrecorded));
  CHECK(cudaStreamWaitEvent(back, unrecorded, 0));
  EXPECT(cudaEventElapsedTime(&milliseconds, unrecorded, end), cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError(), cudaErrorInvalidResourceHandle);

  for (cudaEvent_t event : {begin, end, unrecorded})
    CHECK(cudaEventDestroy(event));
  for (int i = 0; i < chunks; i++) {
    CHECK(cudaEventDestroy(copied[i]));
    CHECK(cudaEventDestroy(computed[i]));
  }
  for (cudaStream_t stream : {copies, kernels, back})
    CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(pinned));
  return ok();
}
