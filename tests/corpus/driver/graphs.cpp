// covers: A graph of copies, kernels, a fill and a child: built node by node, instantiated, launched, its
// kernel's arguments changed, updated from another graph; and one captured from two streams.
#include "check.hpp"

static const uint32_t COUNT = 3000, BLOCKS = 12, THREADS = 250;

static CUDA_KERNEL_NODE_PARAMS axpb_node(CUfunction kernel, void **arguments) {
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = kernel;
  node.gridDimX = BLOCKS;
  node.blockDimX = THREADS;
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = arguments;
  return node;
}

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  CUstream stream, side;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  auto values = counting(COUNT);
  Words from(values), x(COUNT);

  // x = from; then x = 3 * x + 1, and beside it a child graph sets from[0..9] = 77.
  CUgraph graph, child;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphCreate(&child, 0));
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = from.address;
  fill.elementSize = 4;
  fill.width = 10;
  fill.height = 1;
  fill.value = 77;
  CUgraphNode copy_node, kernel_node, child_node, fill_node;
  CHECK(cuGraphAddMemsetNode(&fill_node, child, nullptr, 0, &fill, primary.context));
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from.address;
  copy.dstDevice = x.address;
  copy.WidthInBytes = COUNT * 4;
  copy.Height = copy.Depth = 1;
  CHECK(cuGraphAddMemcpyNode(&copy_node, graph, nullptr, 0, &copy, primary.context));
  uint32_t a = 3, b = 1, count = COUNT;
  void *arguments[] = {&x.address, &a, &b, &count};
  CUDA_KERNEL_NODE_PARAMS node = axpb_node(kernel, arguments);
  CHECK(cuGraphAddKernelNode(&kernel_node, graph, &copy_node, 1, &node));
  CHECK(cuGraphAddChildGraphNode(&child_node, graph, &copy_node, 1, child));
  size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes));
  REQUIRE(nodes == 3);

  CUgraphExec executable;
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  a = b = 1000; // the node holds its own copies
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  equal("x", words(x.address, COUNT), axpb(values, 3, 1));
  std::fill_n(values.begin(), 10, 77);
  equal("from", words(from.address, COUNT), values);

  a = 5, b = 2;
  CHECK(cuGraphExecKernelNodeSetParams(executable, kernel_node, &node));
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  equal("with other arguments", words(x.address, COUNT), axpb(values, 5, 2));

  CUgraph copied;
  CHECK(cuGraphClone(&copied, graph)); // which was not changed: a = 3
  CUgraphExecUpdateResultInfo outcome = {};
  CHECK(cuGraphExecUpdate(executable, copied, &outcome));
  REQUIRE(outcome.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  equal("updated", words(x.address, COUNT), axpb(values, 3, 1));

  // Captured: `side` forks from `stream` at an event and joins it again.
  CUevent forked, joined;
  CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  CUgraph captured;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemsetD32Async(x.address, 4, COUNT, stream));
  CHECK(cuEventRecord(forked, stream));
  CHECK(cuStreamWaitEvent(side, forked, 0));
  CHECK(launch(kernel, BLOCKS, THREADS, side, x.address, uint32_t(10), uint32_t(2), COUNT / 2));
  CHECK(cuMemsetD32Async(x.address + COUNT / 2 * 4, 6, COUNT / 2, stream));
  CHECK(cuEventRecord(joined, side));
  CHECK(cuStreamWaitEvent(stream, joined, 0));
  CHECK(launch(kernel, BLOCKS, THREADS, stream, x.address, uint32_t(2), uint32_t(0), COUNT));
  CHECK(cuStreamEndCapture(stream, &captured));
  equal("not yet run", words(x.address, COUNT), axpb(values, 3, 1));
  CHECK(cuGraphGetNodes(captured, nullptr, &nodes));
  REQUIRE(nodes == 4);
  CUgraphExec second;
  CHECK(cuGraphInstantiate(&second, captured, 0));
  for (int i = 0; i < 2; i++)
    CHECK(cuGraphLaunch(second, stream));
  CHECK(cuStreamSynchronize(stream));
  std::vector<uint32_t> expected(COUNT, 84);
  std::fill(expected.begin() + COUNT / 2, expected.end(), 12);
  equal("captured", words(x.address, COUNT), expected);

  for (CUgraphExec item : {executable, second})
    CHECK(cuGraphExecDestroy(item));
  for (CUgraph item : {graph, child, copied, captured})
    CHECK(cuGraphDestroy(item));
  return ok();
}
