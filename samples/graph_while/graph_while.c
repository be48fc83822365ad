// A graph that is built node by node, with a loop in it: a conditional node whose body runs for as long as a
// kernel says so.
#define SAMPLE_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuGraphCreate, cuGraphCreate, (CUgraph *, unsigned int))                                          \
  FUNCTION(cuGraphAddKernelNode, cuGraphAddKernelNode_v2,                                                    \
           (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *))           \
  FUNCTION(cuGraphAddMemsetNode, cuGraphAddMemsetNode,                                                       \
           (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const void *, CUcontext))                   \
  FUNCTION(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate,                                   \
           (uint64_t *, CUgraph, CUcontext, unsigned int, unsigned int))                                     \
  FUNCTION(cuGraphAddNode, cuGraphAddNode_v2,                                                                \
           (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, void *))                      \
  FUNCTION(cuLinkCreate, cuLinkCreate_v2, (unsigned int, int *, void **, CUlinkState *))                     \
  FUNCTION(cuLinkAddData, cuLinkAddData_v2,                                                                  \
           (CUlinkState, int, void *, size_t, const char *, unsigned int, int *, void **))                   \
  FUNCTION(cuLinkAddFile, cuLinkAddFile_v2, (CUlinkState, int, const char *, unsigned int, int *, void **))  \
  FUNCTION(cuLinkComplete, cuLinkComplete, (CUlinkState, void **, size_t *))                                 \
  FUNCTION(cuLinkDestroy, cuLinkDestroy, (CUlinkState))
#define DRIVER_VERSION_ASKED 12030
typedef struct CUlinkState_st *CUlinkState;
#include "../common/driver.h"

enum { COUNT = 1000, THREADS = 128, BLOCKS = (COUNT + THREADS - 1) / THREADS };
enum {
  NODE_TYPE_CONDITIONAL = 13,
  CONDITION_WHILE = 1,
  ASSIGN_DEFAULT = 1,
  INPUT_PTX = 1,
  INPUT_LIBRARY = 4
};

typedef struct { // CUDA_MEMSET_NODE_PARAMS
  CUdeviceptr place;
  size_t pitch;
  unsigned int value, element_bytes;
  size_t width, height;
} Fill;

typedef struct { // CUgraphNodeParams of a conditional node
  int type, reserved[3];
  uint64_t handle;
  int kind;
  unsigned int bodies;
  CUgraph *graphs;
  CUcontext context;
  char rest[208];
} Conditional;
_Static_assert(sizeof(Conditional) == 256, "CUgraphNodeParams");

// A GPU's driver wants the CUDA toolkit's device runtime beside the PTX, for cudaGraphSetConditional. Not yet
// seen on a GPU (GT-DEVICE-RUNTIME).
static CUmodule load_linked_module(const char *name) {
  char *ptx = read_beside_program(name);
  const char *toolkit = getenv("CUDA_HOME");
  CUmodule module;
  if (cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL) != CUDA_SUCCESS) {
    char path[PATH_MAX];
    CUlinkState link;
    void *image;
    size_t bytes;
    snprintf(path, sizeof path, "%s/lib64/libcudadevrt.a", toolkit ? toolkit : "/usr/local/cuda");
    CHECK(cuLinkCreate(0, NULL, NULL, &link));
    CHECK(cuLinkAddData(link, INPUT_PTX, ptx, strlen(ptx) + 1, name, 0, NULL, NULL));
    CHECK(cuLinkAddFile(link, INPUT_LIBRARY, path, 0, NULL, NULL));
    CHECK(cuLinkComplete(link, &image, &bytes));
    CHECK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    CHECK(cuLinkDestroy(link));
  }
  free(ptx);
  return module;
}

static CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, CUfunction kernel, unsigned blocks,
                              unsigned threads, void **parameters) {
  const CUDA_KERNEL_NODE_PARAMS node = {kernel, blocks, 1, 1, threads, 1, 1, 0, parameters, NULL, NULL, NULL};
  CUgraphNode made;
  CHECK(cuGraphAddKernelNode(&made, graph, &after, after != NULL, &node));
  return made;
}

static CUgraphNode add_fill(CUgraph graph, CUgraphNode after, CUdeviceptr place, size_t count,
                            CUcontext context) {
  const Fill fill = {place, 0, 0, sizeof(uint32_t), count, 1};
  CUgraphNode made;
  CHECK(cuGraphAddMemsetNode(&made, graph, &after, after != NULL, &fill, context));
  return made;
}

static unsigned collatz_steps(uint32_t value) {
  unsigned steps = 0;
  for (; value > 1; steps++)
    value = value % 2 ? 3 * value + 1 : value / 2;
  return steps;
}

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t values[COUNT], steps[COUNT];

  CUdevice device = open_device();
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  CUmodule module = load_linked_module("graph_while.ptx");
  CUfunction collatz, decide;
  CHECK(cuModuleGetFunction(&collatz, module, "collatz"));
  CHECK(cuModuleGetFunction(&decide, module, "decide"));
  CUdeviceptr device_values, device_steps, left, rounds;
  CHECK(cuMemAlloc(&device_values, sizeof values));
  CHECK(cuMemAlloc(&device_steps, sizeof steps));
  CHECK(cuMemAlloc(&left, sizeof(uint32_t)));
  CHECK(cuMemAlloc(&rounds, sizeof(uint32_t)));
  CHECK(cuMemsetD32(rounds, 0, 1));

  CUgraph graph;
  CUgraphExec executable;
  CUgraphNode loop;
  CHECK(cuGraphCreate(&graph, 0));
  Conditional condition = {
      .type = NODE_TYPE_CONDITIONAL, .kind = CONDITION_WHILE, .bodies = 1, .context = context};
  CHECK(cuGraphConditionalHandleCreate(&condition.handle, graph, context, 1, ASSIGN_DEFAULT));
  CUgraphNode start = add_fill(graph, NULL, device_steps, COUNT, context);
  CHECK(cuGraphAddNode(&loop, graph, &start, NULL, 1, &condition));
  uint32_t count = COUNT;
  void *collatz_parameters[] = {&device_values, &device_steps, &count, &left};
  void *decide_parameters[] = {&condition.handle, &left, &rounds};
  CUgraph body = condition.graphs[0];
  CUgraphNode node = add_fill(body, NULL, left, 1, context);
  node = add_kernel(body, node, collatz, BLOCKS, THREADS, collatz_parameters);
  add_kernel(body, node, decide, 1, 1, decide_parameters);
  CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));

  uint32_t expected_rounds = 0, got_rounds;
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    unsigned longest = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
      values[i] = i * launch + 2;
      unsigned needed = collatz_steps(values[i]);
      longest = needed > longest ? needed : longest;
    }
    expected_rounds += longest;
    CHECK(cuMemcpyHtoD(device_values, values, sizeof values));
    CHECK(cuGraphLaunch(executable, NULL));
    pause_between_launches(&options, launch);
    CHECK(cuMemcpyDtoH(steps, device_steps, sizeof steps));
    for (uint32_t i = 0; i < COUNT; i++) {
      if (steps[i] != collatz_steps(values[i])) {
        fprintf(stderr, "graph_while: %u takes %u steps, expected %u\n", values[i], steps[i],
                collatz_steps(values[i]));
        return EXIT_FAILURE;
      }
    }
  }
  CHECK(cuMemcpyDtoH(&got_rounds, rounds, sizeof got_rounds));
  if (got_rounds != expected_rounds)
    stop("the loop made another number of rounds than expected");

  CHECK(cuGraphExecDestroy(executable));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(device_values));
  CHECK(cuMemFree(device_steps));
  CHECK(cuMemFree(left));
  CHECK(cuMemFree(rounds));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches, %u rounds of the loop, all correct\n", options.launches, got_rounds);
  return EXIT_SUCCESS;
}
