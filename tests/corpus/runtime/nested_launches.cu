// covers: kernels that launch kernels: parameters, shapes, levels, tails, streams, events, memory, errors.
// options: -rdc=true -lcudadevrt
// relocation: proven
#include "check.cuh"

__global__ void add_index(int *values, int more, double factor) {
  extern __shared__ int scratch[];
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  scratch[threadIdx.x] = more;
  __syncthreads();
  values[at] += static_cast<int>(scratch[blockDim.x - 1 - threadIdx.x] * factor) + at;
}

__global__ void halve(int *values, int count) {
  if (count == 1) {
    values[0] += 1;
    return;
  }
  halve<<<1, 1>>>(values, count / 2);
  halve<<<1, 1>>>(values + count / 2, count / 2);
}

__global__ void append(int *log, int what) { log[++log[0]] = what; }

__global__ void in_order(int *log) {
  append<<<1, 1, 0, cudaStreamTailLaunch>>>(log, 4);
  append<<<1, 1>>>(log, 1);
  cudaStream_t stream;
  cudaEvent_t event;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess)
    return;
  append<<<1, 1>>>(log, 2);
  cudaEventRecord(event, nullptr);
  cudaStreamWaitEvent(stream, event, 0);
  append<<<1, 1, 0, stream>>>(log, 3);
  cudaMemcpyAsync(log + 5, log + 1, 2 * sizeof(int), cudaMemcpyDeviceToDevice, stream);
  cudaMemsetAsync(log + 7, 1, sizeof(int), stream);
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

__global__ void answers(int *found) {
  int device = -1;
  void *memory = nullptr;
  found[0] = cudaGetDevice(&device);
  found[1] = device;
  found[2] = cudaMalloc(&memory, 64);
  static_cast<int *>(memory)[3] = 7;
  found[3] = static_cast<int *>(memory)[3];
  found[4] = cudaFree(memory);
  add_index<<<1, 4096>>>(found, 0, 1);
  found[5] = cudaPeekAtLastError();
  found[6] = cudaGetLastError();
  found[7] = cudaGetLastError();
}

__global__ void launches(int *values) {
  if (threadIdx.x == 1)
    add_index<<<2, 32, 128>>>(values, 10, 2.5);
}

int main() {
  Buffer<int> values(64);
  auto expect = [&](const std::vector<int> &wanted, const char *what) {
    CHECK(cudaDeviceSynchronize());
    std::vector<int> found = values.host();
    for (size_t i = 0; i < wanted.size(); ++i)
      if (found[i] != wanted[i]) {
        std::printf("%s: %zu is %d, not %d\n", what, i, found[i], wanted[i]);
        std::exit(1);
      }
    values.fill(0);
  };
  values.fill(0);
  std::vector<int> wanted(64);
  for (int i = 0; i < 64; ++i)
    wanted[i] = 25 + i;
  launches<<<1, 2>>>(values);
  expect(wanted, "launched");
  halve<<<1, 1>>>(values, 64);
  expect(std::vector<int>(64, 1), "recursive");
  in_order<<<1, 1>>>(values);
  expect({4, 1, 2, 3, 4, 1, 2, 0x01010101}, "in order");
  answers<<<1, 1>>>(values);
  expect({cudaSuccess, 0, cudaSuccess, 7, cudaSuccess, cudaErrorInvalidConfiguration,
          cudaErrorInvalidConfiguration, cudaSuccess},
         "answers");
  std::puts("ok");
}
