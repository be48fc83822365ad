// covers: Deferred execution: nothing runs until it is waited for, and events bring the right order.
// environment: REPLAY_EMULATOR_DEFERRED=1
#include "../check.cuh"

__global__ void append(int *value, int digit) { *value = *value * 10 + digit; }

int main() {
  // `replay capture` waits for the device at launches, so only alone does the program see work that has not
  // run.
  const bool alone = std::getenv("LD_PRELOAD") == nullptr;
  int *value = nullptr;
  CHECK(cudaMallocHost(&value, sizeof(int)));
  *value = 0;
  cudaStream_t first, second;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t event, last;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaEventCreate(&last));

  append<<<1, 1, 0, first>>>(value, 1);
  append<<<1, 1, 0, first>>>(value, 2);
  CHECK(cudaEventRecord(event, first));
  append<<<1, 1, 0, first>>>(value, 9);
  REQUIRE(!alone || *static_cast<volatile int *>(value) == 0);
  CHECK(cudaEventSynchronize(event));
  REQUIRE(!alone || *static_cast<volatile int *>(value) == 12);
  CHECK(cudaStreamSynchronize(first));
  REQUIRE(*value == 129);

  // second waits for the event of first, though its work is issued and waited for as if it were alone.
  append<<<1, 1, 0, first>>>(value, 3);
  CHECK(cudaEventRecord(event, first));
  CHECK(cudaStreamWaitEvent(second, event));
  append<<<1, 1, 0, second>>>(value, 4);
  CHECK(cudaStreamSynchronize(second));
  REQUIRE(*value == 12934);

  // Polling ends, after an answer that says the work is not done.
  append<<<1, 1, 0, first>>>(value, 5);
  append<<<1, 1, 0, first>>>(value, 6);
  CHECK(cudaEventRecord(last, first));
  int polls = 0;
  cudaError_t answer;
  while ((answer = cudaEventQuery(last)) == cudaErrorNotReady)
    REQUIRE(++polls < 100);
  CHECK(answer);
  REQUIRE(*value == 1293456);
  if (polls > 0)
    EXPECT(cudaGetLastError(), cudaErrorNotReady);
  REQUIRE(!alone || polls > 0);
  CHECK(cudaEventDestroy(event));
  CHECK(cudaEventDestroy(last));
  CHECK(cudaStreamDestroy(first));
  CHECK(cudaStreamDestroy(second));
  CHECK(cudaFreeHost(value));
  return ok();
}
