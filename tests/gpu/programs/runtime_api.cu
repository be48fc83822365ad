// A CUDA runtime program with what such programs commonly use: a constant, a device variable, pinned memory,
// streams, events, asynchronous allocation. Checks its own results.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    cudaError_t error = (call);                                                                              \
    if (error != cudaSuccess) {                                                                              \
      fprintf(stderr, "runtime_api: %s: %s\n", #call, cudaGetErrorName(error));                              \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

__constant__ float factor;
__device__ unsigned launches_seen;

struct Shape {
  int count;
  float offset;
};

__global__ void scale(const float *input, float *output, Shape shape) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < shape.count)
    output[i] = factor * input[i] + shape.offset;
  if (i == 0)
    launches_seen++;
}

int main() {
  const int count = 100000;
  float *host_input, *host_output, *input, *output;
  CHECK(cudaMallocHost(&host_input, count * sizeof(float)));
  CHECK(cudaMallocHost(&host_output, count * sizeof(float)));
  CHECK(cudaMalloc(&input, count * sizeof(float)));
  cudaStream_t stream;
  cudaEvent_t done;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CHECK(cudaMallocAsync(&output, count * sizeof(float), stream));
  for (int launch = 1; launch <= 3; launch++) {
    for (int i = 0; i < count; i++)
      host_input[i] = (float)((i * 7 + launch) % 1000);
    float host_factor = (float)launch;
    CHECK(cudaMemcpyToSymbol(factor, &host_factor, sizeof host_factor));
    CHECK(cudaMemcpyAsync(input, host_input, count * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(output, 0xff, count * sizeof(float), stream));
    Shape shape = {count, 0.5f};
    scale<<<(count + 255) / 256, 256, 0, stream>>>(input, output, shape);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done, stream));
    CHECK(cudaMemcpyAsync(host_output, output, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; i++)
      if (host_output[i] != host_factor * host_input[i] + 0.5f) {
        fprintf(stderr, "runtime_api: launch %d: output[%d] is %g\n", launch, i, host_output[i]);
        return 1;
      }
  }
  unsigned seen;
  CHECK(cudaMemcpyFromSymbol(&seen, launches_seen, sizeof seen));
  if (seen != 3) {
    fprintf(stderr, "runtime_api: the device counted %u launches, not 3\n", seen);
    return 1;
  }
  CHECK(cudaFreeAsync(output, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaFree(input));
  printf("runtime_api: all correct\n");
  return 0;
}
