// Streams, events, and functions of the host in a stream.
#include "check.h"

#include <atomic>
#include <thread>
#include <vector>

__global__ void fill(int *memory, int count, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    memory[i] = value;
}

static std::atomic<int> seen{0};

static void CUDART_CB host_function(void *data) {
  int *value = static_cast<int *>(data);
  seen = *value;
  // Calls of the runtime are not permitted here.
  seen += cudaMalloc(&data, 4) == cudaErrorNotPermitted ? 1000 : 0;
}

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *data) {
  *static_cast<int *>(data) = status == cudaSuccess ? 17 : -1;
}

int main() {
  const int count = 4096;
  int *memory;
  OK(cudaMalloc(&memory, count * sizeof(int)));
  cudaStream_t first, second;
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  int least, greatest;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest < least);
  OK(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, greatest));
  int priority;
  unsigned flags;
  OK(cudaStreamGetPriority(second, &priority));
  OK(cudaStreamGetFlags(second, &flags));
  CHECK(priority == greatest && flags == cudaStreamNonBlocking);

  // Stream 0 is what the compiler was told that it is.
  unsigned long long zero, legacy, per_thread;
  OK(cudaStreamGetId(nullptr, &zero));
  OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
  OK(cudaStreamGetId(cudaStreamPerThread, &per_thread));
  CHECK(legacy != per_thread);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  CHECK(zero == per_thread);
#else
  CHECK(zero == legacy);
#endif

  cudaEvent_t start, filled, end;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  OK(cudaEventCreate(&end));
  int *host;
  OK(cudaMallocHost(&host, count * sizeof(int)));
  OK(cudaEventRecord(start, first));
  fill<<<4, 128, 0, first>>>(memory, count, 7);
  OK(cudaEventRecord(filled, first));
  OK(cudaStreamWaitEvent(second, filled, 0));
  OK(cudaMemcpyAsync(host, memory, count * sizeof(int), cudaMemcpyDeviceToHost, second));
  OK(cudaLaunchHostFunc(second, host_function, host));
  int called = 0;
  OK(cudaStreamAddCallback(second, callback, &called, 0));
  OK(cudaEventRecord(end, second));
  cudaError_t state;
  while ((state = cudaEventQuery(end)) == cudaErrorNotReady)
    std::this_thread::yield();
  OK(state);
  OK(cudaStreamSynchronize(second));
  OK(cudaStreamQuery(second));
  CHECK(host[0] == 7 && host[count - 1] == 7);
  CHECK(seen == 1007);
  CHECK(called == 17);
  float elapsed_ms = -1;
  OK(cudaEventElapsedTime(&elapsed_ms, start, end));
  CHECK(elapsed_ms > 0);
  ERROR_IS(cudaEventElapsedTime(&elapsed_ms, start, filled), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  OK(cudaEventDestroy(filled));
  ERROR_IS(cudaEventRecord(filled, first), cudaErrorInvalidResourceHandle);
  OK(cudaStreamDestroy(first));
  ERROR_IS(cudaStreamSynchronize(first), cudaErrorInvalidResourceHandle);
  ERROR_IS(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  // Each thread has a last error of its own.
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  OK(elsewhere);
  ERROR_IS(cudaGetLastError(), cudaErrorInvalidResourceHandle);

  // Many threads with the default stream of their own or the common one.
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      int *mine, back[256];
      if (cudaMalloc(&mine, sizeof back) != cudaSuccess)
        ++wrong;
      for (int round = 0; round < 20; ++round) {
        fill<<<1, 64>>>(mine, 256, 100 * t + round);
        if (cudaMemcpy(back, mine, sizeof back, cudaMemcpyDeviceToHost) != cudaSuccess)
          ++wrong;
        for (int value : back)
          wrong += value != 100 * t + round;
      }
      cudaFree(mine);
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
  OK(cudaGetLastError());
  std::puts("ok");
}
