// covers: Graphs as frameworks use them: a warm-up, a capture over side streams with stream-ordered memory,
// its events and side streams destroyed and the template gone, other work, then nothing but launches, much
// later.
#include "../check.cuh"

__global__ void linear(float *out, const float *in, const float *weights, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float sum = 0;
  for (int k = 0; k < 8; k++)
    sum += in[(i + k) % n] * weights[k];
  out[i] = sum;
}
__global__ void relu(float *data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && data[i] < 0)
    data[i] = 0;
}
__global__ void add(float *out, const float *a, const float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = a[i] + b[i];
}
__global__ void step(float *weights, float rate) { weights[threadIdx.x] *= rate; }

struct Model {
  float *in, *out, *left, *weights;
  int n;

  void forward(cudaStream_t stream) const {
    cudaStream_t side;
    cudaEvent_t forked, joined;
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    int blocks = (n + 127) / 128;
    float *right;
    CHECK(cudaMallocAsync(&right, n * sizeof(float), stream));
    CHECK(cudaEventRecord(forked, stream));
    CHECK(cudaStreamWaitEvent(side, forked));
    linear<<<blocks, 128, 0, stream>>>(left, in, weights, n);
    relu<<<blocks, 128, 0, stream>>>(left, n);
    linear<<<blocks, 128, 0, side>>>(right, in, weights + 8, n);
    CHECK(cudaEventRecord(joined, side));
    CHECK(cudaStreamWaitEvent(stream, joined));
    add<<<blocks, 128, 0, stream>>>(out, left, right, n);
    CHECK(cudaFreeAsync(right, stream));
    CHECK(cudaEventDestroy(forked));
    CHECK(cudaEventDestroy(joined));
    CHECK(cudaStreamDestroy(side));
  }
};

int main() {
  const int n = 1500;
  Model model = {nullptr, nullptr, nullptr, nullptr, n};
  for (float **buffer : {&model.in, &model.out, &model.left})
    CHECK(cudaMalloc(buffer, n * sizeof(float)));
  CHECK(cudaMalloc(&model.weights, 16 * sizeof(float)));
  std::vector<float> in(n), weights(16), out(n);
  for (int i = 0; i < n; i++)
    in[i] = float(i % 17) - 8;
  for (int i = 0; i < 16; i++)
    weights[i] = float(i % 5) - 2;
  CHECK(cudaMemcpy(model.in, in.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(model.weights, weights.data(), 16 * sizeof(float), cudaMemcpyHostToDevice));
  // A copy from pageable memory may still be under way, and the stream does not wait for it.
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 2; i++)
    model.forward(stream);
  CHECK(cudaStreamSynchronize(stream));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  model.forward(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiateWithFlags(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 20; i++)
    step<<<1, 16, 0, stream>>>(model.weights, i % 2 ? 2.0f : 0.5f);
  for (int i = 0; i < 6; i++) {
    if (i == 3) {
      for (float &value : in)
        value = -value;
      CHECK(cudaMemcpyAsync(model.in, in.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    }
    CHECK(cudaGraphLaunch(executable, stream));
  }
  CHECK(cudaMemcpyAsync(out.data(), model.out, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) {
    float left = 0, right = 0;
    for (int k = 0; k < 8; k++) {
      left += in[(i + k) % n] * weights[k];
      right += in[(i + k) % n] * weights[k + 8];
    }
    REQUIRE(out[i] == (left < 0 ? 0 : left) + right);
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaStreamDestroy(stream));
  for (float *buffer : {model.in, model.out, model.left, model.weights})
    CHECK(cudaFree(buffer));
  return ok();
}
