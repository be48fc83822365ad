// covers: The legacy default stream waits for blocking streams and they for it; non-blocking streams do not.
// environment: REPLAY_EMULATOR_DEFERRED=1
#include "../check.cuh"

__global__ void add(int *data, int value) { data[threadIdx.x] += value; }
__global__ void copy(int *out, const int *in) { out[threadIdx.x] = in[threadIdx.x]; }

int main() {
  const int count = 64;
  Buffer<int> data(count), seen(count);
  data.fill(0);
  cudaStream_t first, second, apart;
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreate(&second));
  CHECK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));

  add<<<1, count, 0, first>>>(data, 1);
  add<<<1, count>>>(data, 10);
  copy<<<1, count, 0, second>>>(seen, data);
  CHECK(cudaStreamSynchronize(second));
  equal("through the default stream", seen.host(), std::vector<int>(count, 11));

  add<<<1, count, 0, second>>>(data, 100);
  copy<<<1, count, 0, cudaStreamLegacy>>>(seen, data);
  CHECK(cudaStreamSynchronize(cudaStreamLegacy));
  equal("by its name", seen.host(), std::vector<int>(count, 111));

  // A synchronous copy is work of the default stream.
  add<<<1, count, 0, first>>>(data, 1000);
  equal("before a copy", data.host(), std::vector<int>(count, 1111));

  // An event of the default stream holds all that came before in blocking streams.
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  add<<<1, count, 0, first>>>(data, 10000);
  CHECK(cudaEventRecord(event));
  CHECK(cudaStreamWaitEvent(apart, event, 0));
  copy<<<1, count, 0, apart>>>(seen, data);
  CHECK(cudaStreamSynchronize(apart));
  int *pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, count * sizeof(int)));
  CHECK(cudaMemcpyAsync(pinned, seen, count * sizeof(int), cudaMemcpyDeviceToHost, apart));
  CHECK(cudaStreamSynchronize(apart));
  equal("through an event", pinned, std::vector<int>(count, 11111).data(), count);

  // Work of a stream apart is waited for by nothing in the default stream, so only its own wait is safe.
  Buffer<int> other(count);
  CHECK(cudaMemsetAsync(other, 0, count * sizeof(int), apart));
  add<<<1, count, 0, apart>>>(other, 5);
  add<<<1, count>>>(data, 1);
  CHECK(cudaStreamSynchronize(apart));
  equal("apart", other.host(), std::vector<int>(count, 5));

  // Each thread's stream is a blocking stream too.
  add<<<1, count, 0, cudaStreamPerThread>>>(data, 2);
  copy<<<1, count>>>(seen, data);
  equal("per thread", seen.host(), std::vector<int>(count, 11114));

  CHECK(cudaEventDestroy(event));
  CHECK(cudaFreeHost(pinned));
  for (cudaStream_t stream : {first, second, apart})
    CHECK(cudaStreamDestroy(stream));
  return ok();
}
