// covers: Conditional nodes of graphs: if, else, while and switch, nested, captured into and updated.
// architecture: 90
#include "../check.cuh"

__global__ void condition_from(cudaGraphConditionalHandle handle, const int *value) {
  cudaGraphSetConditional(handle, static_cast<unsigned>(*value));
}

__global__ void add(int *data, int amount) { *data += amount; }

// Counts `left` down; the loop goes on while something is left.
__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *rounds) {
  *rounds += 1;
  *left -= 1;
  cudaGraphSetConditional(handle, *left > 0);
}

__global__ void fill_again(int *left, int amount) { *left = amount; }

cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t after, void *function, void **arguments) {
  cudaGraphNodeParams parameters = {cudaGraphNodeTypeKernel};
  parameters.kernel.func = function;
  parameters.kernel.gridDim = dim3(1);
  parameters.kernel.blockDim = dim3(1);
  parameters.kernel.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &parameters));
  return node;
}

cudaGraphNode_t add_condition(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                              cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t *bodies) {
  cudaGraphNodeParams parameters = {cudaGraphNodeTypeConditional};
  parameters.conditional.handle = handle;
  parameters.conditional.type = type;
  parameters.conditional.size = size;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &parameters));
  for (unsigned body = 0; body < size; body++)
    bodies[body] = parameters.conditional.phGraph_out[body];
  return node;
}

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

int run(cudaGraphExec_t executable, int *selector, int value, int *result) {
  CHECK(cudaMemset(result, 0, sizeof(int)));
  CHECK(cudaMemcpy(selector, &value, sizeof value, cudaMemcpyHostToDevice));
  CHECK(cudaGraphLaunch(executable, nullptr));
  int got;
  CHECK(cudaMemcpy(&got, result, sizeof got, cudaMemcpyDeviceToHost));
  return got;
}

// A kernel sets the condition, and one of `size` bodies adds its number and one.
void choose(cudaGraphConditionalNodeType type, unsigned size, int *selector, int *result) {
  cudaGraph_t graph, bodies[4];
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
  void *arguments[] = {&handle, &selector};
  auto first = add_kernel(graph, nullptr, reinterpret_cast<void *>(condition_from), arguments);
  auto node = add_condition(graph, first, handle, type, size, bodies);
  for (int body = 0; body < static_cast<int>(size); body++) {
    int amount = body + 1;
    void *sum[] = {&result, &amount};
    auto one = add_kernel(bodies[body], nullptr, reinterpret_cast<void *>(add), sum);
    add_kernel(bodies[body], one, reinterpret_cast<void *>(add), sum);
  }
  int hundred = 100;
  void *last[] = {&result, &hundred};
  add_kernel(graph, node, reinterpret_cast<void *>(add), last);
  // What such a graph cannot be, and a handle has one node.
  cudaGraph_t copy;
  EXPECT(cudaGraphClone(&copy, graph), cudaErrorInvalidValue);
  cudaGraphNodeParams again = {cudaGraphNodeTypeConditional};
  again.conditional.handle = handle;
  again.conditional.type = type;
  again.conditional.size = size;
  cudaGraphNode_t no_node;
  EXPECT(cudaGraphAddNode(&no_node, graph, nullptr, nullptr, 0, &again), cudaErrorInvalidValue);
  cudaGraphExec_t executable = instantiated(graph);
  for (int value : {0, 1, 2, 3, 7}) {
    int body = type == cudaGraphCondTypeIf ? (value ? 0 : 1) : value;
    int expected = 100 + (body < static_cast<int>(size) ? 2 * (body + 1) : 0);
    REQUIRE(run(executable, selector, value, result) == expected);
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
}

// While the outer condition holds, an inner loop counts down from 3.
void loop_in_a_loop(int *left, int *result) {
  int *inner_left, *inner_rounds;
  CHECK(cudaMalloc(&inner_left, sizeof(int)));
  CHECK(cudaMalloc(&inner_rounds, sizeof(int)));
  CHECK(cudaMemset(inner_rounds, 0, sizeof(int)));
  cudaGraph_t graph, outer, inner;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle outer_handle, inner_handle;
  CHECK(cudaGraphConditionalHandleCreate(&outer_handle, graph, 1, cudaGraphCondAssignDefault));
  add_condition(graph, nullptr, outer_handle, cudaGraphCondTypeWhile, 1, &outer);
  CHECK(cudaGraphConditionalHandleCreate(&inner_handle, outer, 1, cudaGraphCondAssignDefault));
  int three = 3;
  void *refill[] = {&inner_left, &three};
  auto first = add_kernel(outer, nullptr, reinterpret_cast<void *>(fill_again), refill);
  auto loop = add_condition(outer, first, inner_handle, cudaGraphCondTypeWhile, 1, &inner);
  // What is inside comes from a capture.
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCaptureToGraph(stream, inner, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  count_down<<<1, 1, 0, stream>>>(inner_handle, inner_left, inner_rounds);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  void *count[] = {&outer_handle, &left, &result};
  auto counting = add_kernel(outer, loop, reinterpret_cast<void *>(count_down), count);
  cudaGraphExec_t executable = instantiated(graph);
  REQUIRE(run(executable, left, 5, result) == 5);
  REQUIRE(run(executable, left, 2, result) == 2);
  // A node inside can be exchanged.
  int *elsewhere;
  CHECK(cudaMalloc(&elsewhere, sizeof(int)));
  CHECK(cudaMemset(elsewhere, 0, sizeof(int)));
  void *other[] = {&outer_handle, &left, &elsewhere};
  cudaKernelNodeParams changed = {};
  changed.func = reinterpret_cast<void *>(count_down);
  changed.gridDim = changed.blockDim = dim3(1);
  changed.kernelParams = other;
  CHECK(cudaGraphExecKernelNodeSetParams(executable, counting, &changed));
  REQUIRE(run(executable, left, 4, result) == 0);
  int got[2];
  CHECK(cudaMemcpy(got, elsewhere, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(got + 1, inner_rounds, sizeof(int), cudaMemcpyDeviceToHost));
  REQUIRE(got[0] == 4 && got[1] == 3 * (5 + 2 + 4));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  for (int *memory : {inner_left, inner_rounds, elsewhere})
    CHECK(cudaFree(memory));
}

int main() {
  int *selector, *result;
  CHECK(cudaMalloc(&selector, sizeof(int)));
  CHECK(cudaMalloc(&result, sizeof(int)));
  choose(cudaGraphCondTypeIf, 1, selector, result);
  choose(cudaGraphCondTypeIf, 2, selector, result);
  choose(cudaGraphCondTypeSwitch, 3, selector, result);
  loop_in_a_loop(selector, result);
  CHECK(cudaFree(selector));
  CHECK(cudaFree(result));
  std::puts("ok");
}
