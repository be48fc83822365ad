// covers: A graph built node by node: memset, copy, kernel and host nodes; changed, and updated as a whole.
// replay: a host function is the application's own code
#include "../check.cuh"

__global__ void add(int *data, int value) { data[threadIdx.x] += value; }

void CUDART_CB total(void *data) {
  auto *numbers = static_cast<int *>(data);
  numbers[64] = 0;
  for (int i = 0; i < 64; i++)
    numbers[64] += numbers[i];
}

struct Parts {
  cudaGraph_t graph;
  cudaGraphNode_t fill, kernel, copy, host;
};

cudaKernelNodeParams kernel_parameters(void **arguments) {
  cudaKernelNodeParams parameters = {};
  parameters.func = reinterpret_cast<void *>(add);
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(64);
  parameters.kernelParams = arguments;
  return parameters;
}

Parts build(int *data, int *result, int value, int byte) {
  Parts parts;
  CHECK(cudaGraphCreate(&parts.graph, 0));
  cudaMemsetParams fill = {};
  fill.dst = data;
  fill.elementSize = 1;
  fill.value = byte;
  fill.width = 64 * sizeof(int);
  fill.height = 1;
  CHECK(cudaGraphAddMemsetNode(&parts.fill, parts.graph, nullptr, 0, &fill));
  void *arguments[] = {&data, &value};
  cudaKernelNodeParams kernel = kernel_parameters(arguments);
  CHECK(cudaGraphAddKernelNode(&parts.kernel, parts.graph, &parts.fill, 1, &kernel));
  CHECK(cudaGraphAddMemcpyNode1D(&parts.copy, parts.graph, &parts.kernel, 1, result, data, 64 * sizeof(int),
                                 cudaMemcpyDeviceToHost));
  cudaHostNodeParams host = {total, result};
  CHECK(cudaGraphAddHostNode(&parts.host, parts.graph, &parts.copy, 1, &host));
  return parts;
}

int main() {
  Buffer<int> data(64);
  int *result = nullptr;
  CHECK(cudaMallocHost(&result, 65 * sizeof(int)));
  Parts parts = build(data, result, 41, 0);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(parts.host, &type));
  REQUIRE(type == cudaGraphNodeTypeHost);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, parts.graph, 0));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  auto launched = [&] {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    return result[64];
  };
  REQUIRE(launched() == 64 * 41);

  int *pointer = data, value = -3;
  void *arguments[] = {&pointer, &value};
  cudaKernelNodeParams changed = kernel_parameters(arguments);
  CHECK(cudaGraphExecKernelNodeSetParams(executable, parts.kernel, &changed));
  REQUIRE(launched() == 64 * -3);

  Parts other = build(data, result, 100, 1);
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(executable, other.graph, &info));
  REQUIRE(info.result == cudaGraphExecUpdateSuccess);
  REQUIRE(launched() == 64 * (0x01010101 + 100));

  // Another shape is refused and changes nothing.
  CHECK(cudaGraphDestroyNode(other.host));
  EXPECT(cudaGraphExecUpdate(executable, other.graph, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT(cudaGetLastError(), cudaErrorGraphExecUpdateFailure);
  REQUIRE(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  REQUIRE(launched() == 64 * (0x01010101 + 100));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(parts.graph));
  CHECK(cudaGraphDestroy(other.graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(result));
  return ok();
}
