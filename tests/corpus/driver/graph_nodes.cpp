// covers: Every kind of graph node that a replay rebuilds: kernel (with attributes, `extra`, a CUkernel),
// copies of one and two dimensions and from pageable memory, fills, events, memory operations, memory
// allocated and freed in one graph and across two, child graphs two deep, clones; changed in every way
// between launches.
#include "check.hpp"

#include <new>

static const uint32_t COUNT = 600;

struct Graph {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;

  Graph() { CHECK(cuGraphCreate(&graph, 0)); }
  Graph(const Graph &) = delete;
  ~Graph() {
    cuGraphExecDestroy(executable);
    cuGraphDestroy(graph);
  }
  void instantiate(unsigned long long flags = 0) { CHECK(cuGraphInstantiate(&executable, graph, flags)); }
  void run(CUstream stream) {
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
  }
};

static CUgraphNode add_kernel(CUgraph graph, std::vector<CUgraphNode> after, CUfunction kernel,
                              CUdeviceptr &x, uint32_t &a, uint32_t &b, uint32_t &n) {
  void *arguments[] = {&x, &a, &b, &n};
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = kernel;
  node.gridDimX = (n + 99) / 100, node.blockDimX = 100;
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = arguments;
  CUgraphNode made;
  CHECK(cuGraphAddKernelNode(&made, graph, after.data(), after.size(), &node));
  return made;
}

static CUgraphNode add_fill(CUgraph graph, std::vector<CUgraphNode> after, CUcontext context, CUdeviceptr to,
                            unsigned value, unsigned element_bytes, size_t width, size_t height = 1,
                            size_t pitch = 0) {
  CUDA_MEMSET_NODE_PARAMS fill = {to, pitch, value, element_bytes, width, height};
  CUgraphNode made;
  CHECK(cuGraphAddMemsetNode(&made, graph, after.data(), after.size(), &fill, context));
  return made;
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t width, size_t height = 1,
                             size_t pitch = 0) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from, copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = pitch;
  copy.WidthInBytes = width, copy.Height = height, copy.Depth = 1;
  return copy;
}

static CUgraphNode add_copy(CUgraph graph, std::vector<CUgraphNode> after, CUcontext context,
                            const CUDA_MEMCPY3D &copy) {
  CUgraphNode made;
  CHECK(cuGraphAddMemcpyNode(&made, graph, after.data(), after.size(), &copy, context));
  return made;
}

static void copies_fills_and_changes(Primary &primary, CUfunction kernel, CUstream stream) {
  std::vector<uint32_t> host(COUNT), values(COUNT);
  std::iota(host.begin(), host.end(), 5u);
  Words x(COUNT), y(COUNT), z(COUNT);
  uint32_t a = 3, b = 1, n = COUNT;
  Graph graph;
  CUDA_MEMCPY3D from_host = copy_of(x.address, 0, COUNT * 4);
  from_host.srcMemoryType = CU_MEMORYTYPE_HOST,
  from_host.srcHost = host.data(); // pageable: read at each launch
  CUgraphNode in = add_copy(graph.graph, {}, primary.context, from_host);
  CUgraphNode kernel_node = add_kernel(graph.graph, {in}, kernel, x.address, a, b, n);
  CUgraphNode copy =
      add_copy(graph.graph, {kernel_node}, primary.context, copy_of(y.address, x.address, COUNT * 4));
  CUgraphNode pitched = add_fill(graph.graph, {copy}, primary.context, y.address, 9, 2, 10, 3, 100);
  CUgraphNode fill = add_fill(graph.graph, {pitched}, primary.context, y.address + 2000, 7, 1, 100);
  CUgraphNode rectangle =
      add_copy(graph.graph, {fill}, primary.context, copy_of(z.address, y.address, 40, 5, 200));
  (void)rectangle;
  graph.instantiate();
  graph.run(stream);
  equal("x", words(x.address, COUNT), axpb(host, 3, 1));
  for (uint32_t &value : host)
    value += 1000;
  graph.run(stream);
  equal("x again", words(x.address, COUNT), axpb(host, 3, 1));

  // Parameters, one node at a time, in each form; then nodes that are switched off and on.
  a = 7, b = 2;
  void *arguments[] = {&x.address, &a, &b, &n};
  CUDA_KERNEL_NODE_PARAMS other = {};
  other.func = kernel, other.gridDimX = 12, other.blockDimX = 50;
  other.gridDimY = other.gridDimZ = other.blockDimY = other.blockDimZ = 1;
  other.kernelParams = arguments;
  CHECK(cuGraphExecKernelNodeSetParams(graph.executable, kernel_node, &other));
  CUDA_MEMCPY3D elsewhere = copy_of(z.address, x.address, COUNT * 4);
  CHECK(cuGraphExecMemcpyNodeSetParams(graph.executable, copy, &elsewhere, primary.context));
  CUDA_MEMSET_NODE_PARAMS refill = {z.address + 400, 0, 0x55, 1, 100, 1};
  CUgraphNodeParams any = {};
  any.type = CU_GRAPH_NODE_TYPE_MEMSET;
  any.memset.dst = refill.dst, any.memset.value = 0x55, any.memset.elementSize = 1, any.memset.width = 100;
  any.memset.height = 1, any.memset.ctx = primary.context;
  CHECK(cuGraphExecMemsetNodeSetParams(graph.executable, fill, &refill, primary.context));
  graph.run(stream);
  values = axpb(host, 7, 2);
  equal("changed", words(x.address, COUNT), values);
  auto in_z = words(z.address, COUNT);
  REQUIRE(in_z[115] == 0x55555555 && in_z[599] == values[599]);
  any.memset.value = 0x66;
  CHECK(cuGraphExecNodeSetParams(graph.executable, fill, &any));
  CHECK(cuGraphNodeSetEnabled(graph.executable, in, 0));
  graph.run(stream);
  values = axpb(values, 7, 2);
  equal("without the copy from the host", words(x.address, COUNT), values);
  REQUIRE(words(z.address, COUNT)[115] == 0x66666666);
  CHECK(cuGraphNodeSetEnabled(graph.executable, in, 1));
  CHECK(cuGraphNodeSetEnabled(graph.executable, kernel_node, 0));
  graph.run(stream);
  equal("without the kernel", words(x.address, COUNT), host);
  CHECK(cuGraphNodeSetEnabled(graph.executable, kernel_node, 1));

  // The whole of it, from a clone that was changed; the clone ends before it is launched.
  CUgraph clone;
  CHECK(cuGraphClone(&clone, graph.graph));
  CUgraphNode cloned;
  CHECK(cuGraphNodeFindInClone(&cloned, kernel_node, clone));
  a = 11;
  CHECK(cuGraphKernelNodeSetParams(cloned, &other));
  CUgraphExecUpdateResultInfo outcome = {};
  CHECK(cuGraphExecUpdate(graph.executable, clone, &outcome));
  CHECK(cuGraphDestroy(clone));
  graph.run(stream);
  equal("updated", words(x.address, COUNT), axpb(host, 11, 2));
}

static void children(Primary &primary, CUfunction kernel, CUstream stream) {
  Words x(std::vector<uint32_t>(COUNT, 2u)), y(std::vector<uint32_t>(COUNT, 3u));
  uint32_t a = 2, b = 1, n = COUNT;
  CUgraphExec executable;
  CUgraphNode inner_kernel, outer_node;
  CUgraph inner, middle, outer, replacement;
  CHECK(cuGraphCreate(&inner, 0));
  CHECK(cuGraphCreate(&middle, 0));
  CHECK(cuGraphCreate(&outer, 0));
  CHECK(cuGraphCreate(&replacement, 0));
  add_kernel(inner, {}, kernel, x.address, a, b, n);
  CUgraphNode inner_node, first = add_fill(middle, {}, primary.context, y.address, 4, 4, COUNT);
  CHECK(cuGraphAddChildGraphNode(&inner_node, middle, &first, 1, inner));
  CHECK(cuGraphAddChildGraphNode(&outer_node, outer, nullptr, 0, middle));
  add_kernel(outer, {outer_node}, kernel, y.address, a, b, n);
  CHECK(cuGraphInstantiate(&executable, outer, 0));
  CHECK(cuGraphLaunch(executable, stream));
  // The kernel inside the inner graph, by its node there.
  CUgraph in_outer, in_middle;
  CHECK(cuGraphChildGraphNodeGetGraph(outer_node, &in_outer));
  size_t count = 2;
  CUgraphNode nodes[2];
  CHECK(cuGraphGetNodes(in_outer, nodes, &count));
  CHECK(cuGraphChildGraphNodeGetGraph(nodes[1], &in_middle));
  count = 1;
  CHECK(cuGraphGetNodes(in_middle, &inner_kernel, &count));
  a = 10;
  void *arguments[] = {&x.address, &a, &b, &n};
  CUDA_KERNEL_NODE_PARAMS other = {};
  other.func = kernel, other.gridDimX = 6, other.blockDimX = 100;
  other.gridDimY = other.gridDimZ = other.blockDimY = other.blockDimZ = 1;
  other.kernelParams = arguments;
  CHECK(cuGraphExecKernelNodeSetParams(executable, inner_kernel, &other));
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  equal("x", words(x.address, COUNT), std::vector<uint32_t>(COUNT, (2 * 2 + 1) * 10 + 1));
  equal("y", words(y.address, COUNT), std::vector<uint32_t>(COUNT, 4 * 2 + 1));
  // A child graph as a whole.
  first = add_fill(replacement, {}, primary.context, y.address, 6, 4, COUNT);
  CHECK(cuGraphAddChildGraphNode(&inner_node, replacement, &first, 1, inner));
  CHECK(cuGraphExecChildGraphNodeSetParams(executable, outer_node, replacement));
  for (CUgraph graph : {inner, middle, outer, replacement})
    CHECK(cuGraphDestroy(graph));
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  equal("x, replaced", words(x.address, COUNT), std::vector<uint32_t>(COUNT, ((2 * 2 + 1) * 10 + 1) * 2 + 1));
  equal("y, replaced", words(y.address, COUNT), std::vector<uint32_t>(COUNT, 6 * 2 + 1));
  CHECK(cuGraphExecDestroy(executable));
}

static void memory(Primary &primary, CUfunction kernel, CUstream stream) {
  Words x(COUNT);
  uint32_t a = 5, b = 4, n = COUNT;
  CUDA_MEM_ALLOC_NODE_PARAMS allocate = {};
  allocate.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocate.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allocate.bytesize = COUNT * 4;
  CUgraphNode node, freed;
  Graph whole; // allocates and frees
  CHECK(cuGraphAddMemAllocNode(&node, whole.graph, nullptr, 0, &allocate));
  CUdeviceptr own = allocate.dptr;
  node = add_fill(whole.graph, {node}, primary.context, own, 8, 4, COUNT);
  node = add_kernel(whole.graph, {node}, kernel, own, a, b, n);
  node = add_copy(whole.graph, {node}, primary.context, copy_of(x.address, own, COUNT * 4));
  CHECK(cuGraphAddMemFreeNode(&freed, whole.graph, &node, 1, own));
  whole.instantiate();
  for (int i = 0; i < 2; i++)
    whole.run(stream);
  equal("x", words(x.address, COUNT), std::vector<uint32_t>(COUNT, 44));

  Graph leaves, ends; // allocates; frees
  CHECK(cuGraphAddMemAllocNode(&node, leaves.graph, nullptr, 0, &allocate));
  CUdeviceptr left = allocate.dptr;
  add_fill(leaves.graph, {node}, primary.context, left, 3, 4, COUNT);
  leaves.instantiate();
  node = add_kernel(ends.graph, {}, kernel, left, a, b, n);
  node = add_copy(ends.graph, {node}, primary.context, copy_of(x.address, left, COUNT * 4));
  CHECK(cuGraphAddMemFreeNode(&freed, ends.graph, &node, 1, left));
  ends.instantiate();
  for (int i = 0; i < 2; i++) {
    leaves.run(stream);
    CHECK(launch(kernel, 6, 100, stream, left, a, b, n));
    ends.run(stream);
    equal("x, from memory that outlived its graph", words(x.address, COUNT),
          std::vector<uint32_t>(COUNT, 99));
  }
  leaves.run(stream);
  CHECK(launch(kernel, 6, 100, stream, left, a, b, n));
  CHECK(cuStreamSynchronize(stream));
  equal("memory of a graph", words(left, COUNT), std::vector<uint32_t>(COUNT, 19));
  CHECK(cuMemFree(left));
}

static void events_values_and_kernels(CUfunction kernel, CUstream stream, CUstream other) {
  Words x(std::vector<uint32_t>(COUNT, 1u)), flags(std::vector<uint32_t>(4, 0u));
  CUlibrary library;
  CUkernel of_library;
  CHECK(cuLibraryLoadData(&library, AXPB, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetKernel(&of_library, library, "axpb"));
  CUevent recorded, second;
  CHECK(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&second, CU_EVENT_DISABLE_TIMING));
  uint32_t a = 6, b = 5, n = COUNT;
  struct {
    CUdeviceptr x;
    uint32_t a, b, n;
  } packed = {x.address, 2, 3, COUNT};
  size_t packed_bytes = 20;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                   CU_LAUNCH_PARAM_END};
  Graph graph;
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = kernel, parameters.gridDimX = 6, parameters.blockDimX = 100;
  parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.extra = extra;
  CUgraphNode first, record, values, last, wait;
  CHECK(cuGraphAddKernelNode(&first, graph.graph, nullptr, 0, &parameters));
  CUlaunchAttributeValue value = {};
  value.priority = 0;
  CHECK(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  value = {};
  value.cooperative = 1;
  CHECK(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  CHECK(cuGraphAddEventRecordNode(&record, graph.graph, &first, 1, recorded));
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = flags.address, operations[0].writeValue.value = 17;
  operations[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = flags.address, operations[1].waitValue.value = 17;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {};
  CHECK(cuCtxGetCurrent(&batch.ctx));
  batch.count = 2, batch.paramArray = operations;
  CHECK(cuGraphAddBatchMemOpNode(&values, graph.graph, &record, 1, &batch));
  void *arguments[] = {&x.address, &a, &b, &n};
  parameters = {};
  parameters.kern = of_library, parameters.gridDimX = 6, parameters.blockDimX = 100;
  parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  CHECK(cuGraphAddKernelNode(&last, graph.graph, &values, 1, &parameters));
  CHECK(cuGraphAddEventWaitNode(&wait, graph.graph, &last, 1, second));
  CUgraphNode empty;
  CHECK(cuGraphAddEmptyNode(&empty, graph.graph, &wait, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS how = {};
  how.flags = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  CHECK(cuGraphInstantiateWithParams(&graph.executable, graph.graph, &how));
  CHECK(cuGraphUpload(graph.executable, stream));
  CHECK(cuGraphLaunch(graph.executable, stream));
  CHECK(cuStreamWaitEvent(other, recorded, 0));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuStreamSynchronize(other));
  equal("x", words(x.address, COUNT), std::vector<uint32_t>(COUNT, (2 + 3) * 6 + 5));
  REQUIRE(words(flags.address, 4)[0] == 17);
  operations[0].writeValue.value = operations[1].waitValue.value = 18;
  CHECK(cuGraphExecBatchMemOpNodeSetParams(graph.executable, values, &batch));
  CHECK(cuGraphExecEventRecordNodeSetEvent(graph.executable, record, second));
  CHECK(cuGraphExecEventWaitNodeSetEvent(graph.executable, wait, recorded));
  CHECK(cuGraphLaunch(graph.executable, other));
  CHECK(cuStreamSynchronize(other));
  REQUIRE(words(flags.address, 4)[0] == 18);
  CHECK(cuEventDestroy(recorded));
  CHECK(cuEventDestroy(second));
  graph.~Graph();
  new (&graph) Graph;
  CHECK(cuLibraryUnload(library));
}

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  CUstream stream, other;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  copies_fills_and_changes(primary, kernel, stream);
  children(primary, kernel, stream);
  memory(primary, kernel, stream);
  events_values_and_kernels(kernel, stream, other);
  return ok();
}
