// covers: cudaLaunchHostFunc and cudaStreamAddCallback: in stream order, with their data, on another thread.
// replay: own code
#include "../check.cuh"

#include <thread>

__global__ void increment(int *counter) { ++*counter; }

struct Journal {
  int *counter;
  std::vector<int> seen;
  std::thread::id thread;
  cudaStream_t stream;
  cudaError_t status = cudaErrorUnknown;
};

void CUDART_CB note(void *data) {
  auto *journal = static_cast<Journal *>(data);
  journal->seen.push_back(*journal->counter);
  journal->thread = std::this_thread::get_id();
}

void CUDART_CB called_back(cudaStream_t stream, cudaError_t status, void *data) {
  auto *journal = static_cast<Journal *>(data);
  journal->seen.push_back(-*journal->counter);
  journal->stream = stream;
  journal->status = status;
}

void CUDART_CB write(void *data) { *static_cast<int *>(data) = 500; }

int main() {
  int *counter = nullptr;
  CHECK(cudaMallocHost(&counter, sizeof(int)));
  *counter = 0;
  Journal journal;
  journal.counter = counter;
  cudaStream_t stream, other;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (int i = 0; i < 3; i++) {
    increment<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaLaunchHostFunc(stream, note, &journal));
    increment<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaStreamAddCallback(stream, called_back, &journal, 0));
  }
  CHECK(cudaStreamSynchronize(stream));
  equal("the order", journal.seen, {1, -2, 3, -4, 5, -6});
  REQUIRE(journal.thread != std::this_thread::get_id());
  REQUIRE(journal.stream == stream && journal.status == cudaSuccess);

  // What a host function wrote is there for the kernels after it, in another stream through an event.
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaLaunchHostFunc(stream, write, counter));
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(other, event, 0));
  increment<<<1, 1, 0, other>>>(counter);
  CHECK(cudaStreamSynchronize(other));
  REQUIRE(*counter == 501);

  EXPECT(cudaStreamAddCallback(stream, called_back, &journal, 1), cudaErrorInvalidValue);
  EXPECT(cudaLaunchHostFunc(stream, nullptr, &journal), cudaErrorInvalidValue);
  EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaFreeHost(counter));
  return ok();
}
