// Graphs: captured from streams and built by hand, launched, changed, asked for their shape.
#include "check.h"

#include <vector>

__device__ int factor = 2;

__global__ void scale(int *memory, int count, int addend) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    memory[i] = memory[i] * factor + addend;
}

static void CUDART_CB count_up(void *data) { ++*static_cast<int *>(data); }

static const int count = 64;

static void captured() {
  cudaStream_t stream, side;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  int *memory, host[count] = {}, called = 0;
  OK(cudaMalloc(&memory, sizeof host));
  cudaEvent_t fork, join;
  OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemsetAsync(memory, 0, sizeof host, stream));
  scale<<<1, 32, 0, stream>>>(memory, count, 5);
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaLaunchHostFunc(side, count_up, &called));
  OK(cudaEventRecord(join, side));
  scale<<<1, 32, 0, stream>>>(memory, count, 1);
  OK(cudaStreamWaitEvent(stream, join, 0));
  OK(cudaMemcpyAsync(host, memory, sizeof host, cudaMemcpyDeviceToHost, stream));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(stream, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  CHECK(host[0] == 0 && called == 0);
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 5);
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  for (int round = 1; round <= 3; ++round) {
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(host[0] == 11 && host[count - 1] == 11 && called == round);
  }
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  // The legacy default stream cannot be captured, a thread's own can.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  OK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed));
  scale<<<1, 32>>>(memory, count, 5);
  OK(cudaStreamEndCapture(nullptr, &graph));
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 1);
  OK(cudaGraphDestroy(graph));
#else
  ERROR_IS(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
#endif
  // What a capture does not permit ends it.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ERROR_IS(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  ERROR_IS(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
  OK(cudaStreamDestroy(stream));
}

static void by_hand() {
  int *memory, host[count], called = 0;
  OK(cudaMalloc(&memory, sizeof host));
  for (int i = 0; i < count; ++i)
    host[i] = i;
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t upload, kernel, download, call, symbol;
  OK(cudaGraphAddMemcpyNode1D(&upload, graph, nullptr, 0, memory, host, sizeof host, cudaMemcpyHostToDevice));
  static const int three = 3;
  OK(cudaGraphAddMemcpyNodeToSymbol(&symbol, graph, nullptr, 0, factor, &three, sizeof three, 0,
                                    cudaMemcpyHostToDevice));
  int size = count, addend = 1;
  void *arguments[] = {&memory, &size, &addend};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void *>(scale);
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(32);
  parameters.kernelParams = arguments;
  cudaGraphNode_t before[] = {upload, symbol};
  OK(cudaGraphAddKernelNode(&kernel, graph, before, 2, &parameters));
  OK(cudaGraphAddMemcpyNode1D(&download, graph, &kernel, 1, host, memory, sizeof host,
                              cudaMemcpyDeviceToHost));
  cudaHostNodeParams host_parameters{count_up, &called};
  OK(cudaGraphAddHostNode(&call, graph, &download, 1, &host_parameters));
  cudaGraphNodeType type;
  OK(cudaGraphNodeGetType(kernel, &type));
  CHECK(type == cudaGraphNodeTypeKernel);
  cudaKernelNodeParams got;
  OK(cudaGraphKernelNodeGetParams(kernel, &got));
  CHECK(got.func == parameters.func && got.blockDim.x == 32 && *static_cast<int *>(got.kernelParams[2]) == 1);
  size_t edges = 0, roots = 0;
#if CUDART_VERSION >= 13000
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
#else
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
#endif
  OK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  CHECK(edges == 4 && roots == 2);
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, nullptr));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i)
    CHECK(host[i] == 3 * i + 1);
  CHECK(called == 1);
  addend = 100;
  OK(cudaGraphExecKernelNodeSetParams(executable, kernel, &parameters));
  OK(cudaGraphLaunch(executable, nullptr));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i)
    CHECK(host[i] == 3 * (3 * i + 1) + 100);
  cudaGraph_t clone;
  OK(cudaGraphClone(&clone, graph));
  cudaGraphNode_t twin;
  OK(cudaGraphNodeFindInClone(&twin, kernel, clone));
  cudaGraphExecUpdateResultInfo info;
  OK(cudaGraphExecUpdate(executable, graph, &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphDestroy(clone));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
}

int main() {
  captured();
  by_hand();
  std::puts("ok");
}
