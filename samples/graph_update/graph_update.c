// A CUDA graph, captured from two streams once and launched again and again; before each launch one of its
// kernels gets another parameter. The side stream and the events of the capture are gone by then.
#include "../common/driver.h"

enum { COUNT = 5003, THREADS = 128, BLOCKS = (COUNT + THREADS - 1) / THREADS };

static uint32_t stepped(uint32_t value, uint32_t seed) { return (value ^ seed) * 1664525u + 1013904223u; }

static CUgraphNode node_of_kernel(CUgraph graph, CUfunction kernel, CUDA_KERNEL_NODE_PARAMS *parameters) {
  CUgraphNode nodes[16];
  size_t count = 16;
  CHECK(cuGraphGetNodes(graph, nodes, &count));
  for (size_t n = 0; n < count; n++) {
    int type;
    CHECK(cuGraphNodeGetType(nodes[n], &type));
    if (type != CU_GRAPH_NODE_TYPE_KERNEL)
      continue;
    CHECK(cuGraphKernelNodeGetParams(nodes[n], parameters));
    if (parameters->func == kernel)
      return nodes[n];
  }
  stop("the captured graph lacks a kernel");
}

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 4);
  static uint32_t left[COUNT], right[COUNT], expected[COUNT], sums[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("graph_update.ptx");
  CUfunction step, combine;
  CHECK(cuModuleGetFunction(&step, module, "step"));
  CHECK(cuModuleGetFunction(&combine, module, "combine"));
  CUdeviceptr device_left, device_right, device_sums;
  CHECK(cuMemAlloc(&device_left, sizeof left));
  CHECK(cuMemAlloc(&device_right, sizeof right));
  CHECK(cuMemAlloc(&device_sums, sizeof sums));
  for (uint32_t i = 0; i < COUNT; i++)
    left[i] = i;
  CHECK(cuMemcpyHtoD(device_left, left, sizeof left));
  CHECK(cuMemsetD32(device_sums, 0, COUNT));
  CHECK(cuCtxSynchronize()); // such a copy or fill may return early, and the stream does not wait for it

  // left and right step side by side, right from the same number each time; then they are added up.
  CUstream stream, side;
  CUevent forked, joined;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  uint32_t count = COUNT, seed = 1;
  void *step_left[] = {&device_left, &count, &seed}, *step_right[] = {&device_right, &count, &seed};
  void *combine_both[] = {&device_sums, &device_left, &device_right, &count};
  CUgraph graph;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuEventRecord(forked, stream));
  CHECK(cuStreamWaitEvent(side, forked, 0));
  CHECK(cuLaunchKernel(step, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, step_left, NULL));
  CHECK(cuMemsetD32Async(device_right, 7, COUNT, side));
  CHECK(cuLaunchKernel(step, BLOCKS, 1, 1, THREADS, 1, 1, 0, side, step_right, NULL));
  CHECK(cuEventRecord(joined, side));
  CHECK(cuStreamWaitEvent(stream, joined, 0));
  CHECK(cuLaunchKernel(combine, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, combine_both, NULL));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuEventDestroy(forked));
  CHECK(cuEventDestroy(joined));
  CHECK(cuStreamDestroy(side));
  CUgraphExec executable;
  CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  CUDA_KERNEL_NODE_PARAMS parameters;
  CUgraphNode first = node_of_kernel(graph, step, &parameters);

  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    seed = launch * 2654435761u;
    parameters.kernelParams = step_left;
    parameters.extra = NULL;
    CHECK(cuGraphExecKernelNodeSetParams(executable, first, &parameters));
    CHECK(cuGraphLaunch(executable, stream));
    pause_between_launches(&options, launch);
    for (uint32_t i = 0; i < COUNT; i++) {
      left[i] = stepped(left[i], seed);
      expected[i] += left[i] + stepped(7, 1);
    }
  }
  CHECK(cuMemcpyDtoHAsync(sums, device_sums, sizeof sums, stream));
  CHECK(cuStreamSynchronize(stream));
  for (uint32_t i = 0; i < COUNT; i++) {
    if (sums[i] != expected[i]) {
      fprintf(stderr, "graph_update: after %u launches sums[%u] is %u, expected %u\n", options.launches, i,
              sums[i], expected[i]);
      return EXIT_FAILURE;
    }
  }

  CHECK(cuGraphExecDestroy(executable));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFree(device_left));
  CHECK(cuMemFree(device_right));
  CHECK(cuMemFree(device_sums));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches of one graph, all correct\n", options.launches);
  return EXIT_SUCCESS;
}
