// covers: Stream capture: a fork and join over two streams becomes a graph that is launched again and again.
#include "../check.cuh"

__global__ void step(int *data, int factor, int offset) {
  data[threadIdx.x] = data[threadIdx.x] * factor + offset;
}
__global__ void combine(int *out, const int *a, const int *b) {
  out[threadIdx.x] += a[threadIdx.x] - b[threadIdx.x];
}

int main() {
  const int count = 200;
  auto values = random_values<short>(count);
  std::vector<int> start(values.begin(), values.end());
  Buffer<int> a(start), b(start), out(count);
  out.fill(0);
  cudaStream_t main_stream, side;
  cudaEvent_t forked, joined;
  CHECK(cudaStreamCreate(&main_stream));
  CHECK(cudaStreamCreate(&side));
  CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));

  CHECK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(main_stream, &status));
  REQUIRE(status == cudaStreamCaptureStatusActive);
  step<<<1, count, 0, main_stream>>>(a, 3, 1);
  CHECK(cudaEventRecord(forked, main_stream));
  CHECK(cudaStreamWaitEvent(side, forked));
  step<<<1, count, 0, side>>>(b, 5, -2);
  CHECK(cudaEventRecord(joined, side));
  step<<<1, count, 0, main_stream>>>(a, 2, 7);
  CHECK(cudaStreamWaitEvent(main_stream, joined));
  combine<<<1, count, 0, main_stream>>>(out, a, b);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(main_stream, &graph));
  equal("nothing ran", a.host(), start);
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  REQUIRE(nodes == 4);

  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  std::vector<int> sum(count), x = start, y = start;
  for (int launch = 0; launch < 5; launch++) {
    CHECK(cudaGraphLaunch(executable, main_stream));
    for (int i = 0; i < count; i++) {
      x[i] = int((unsigned(x[i]) * 3u + 1u) * 2u + 7u);
      y[i] = int(unsigned(y[i]) * 5u - 2u);
      sum[i] = int(unsigned(sum[i]) + unsigned(x[i]) - unsigned(y[i]));
    }
  }
  CHECK(cudaStreamSynchronize(main_stream));
  equal("out", out.host(), sum);

  // What would wait for the capture invalidates it.
  CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal));
  EXPECT(cudaStreamSynchronize(side), cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(side, &graph), cudaErrorStreamCaptureInvalidated);
  REQUIRE(cudaGetLastError() != cudaSuccess);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaEventDestroy(forked));
  CHECK(cudaEventDestroy(joined));
  CHECK(cudaStreamDestroy(main_stream));
  CHECK(cudaStreamDestroy(side));
  return ok();
}
