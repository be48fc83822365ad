// covers: Managed memory: a list that both sides build and walk, __managed__ variables, advice, prefetch.
#include "../check.cuh"

struct Node {
  int value;
  Node *next;
};

__managed__ int total = 1000;
__managed__ Node *head;

__global__ void prepend(Node *nodes, int count) {
  for (int i = 0; i < count; i++) {
    nodes[i].value = 3 * i;
    nodes[i].next = head;
    head = &nodes[i];
  }
}

__global__ void sum_list() {
  for (Node *node = head; node; node = node->next)
    total += node->value;
}

int main() {
  const int count = 200;
  Node *nodes = nullptr;
  CHECK(cudaMallocManaged(&nodes, 2 * count * sizeof(Node)));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, nodes + 5));
  REQUIRE(attributes.type == cudaMemoryTypeManaged);
  REQUIRE(attributes.devicePointer == nodes + 5 && attributes.hostPointer == nodes + 5);

  for (int i = count; i < 2 * count; i++) {
    nodes[i] = {7 * i, head};
    head = &nodes[i];
  }
  prepend<<<1, 1>>>(nodes, count);
  sum_list<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  int expected = 1000, met = 0;
  for (int i = 0; i < 2 * count; i++)
    expected += (i < count ? 3 : 7) * i;
  REQUIRE(total == expected);
  for (Node *node = head; node; node = node->next, met++)
    REQUIRE(node->value == (met < count ? 3 * (count - 1 - met) : 7 * (3 * count - 1 - met)));
  REQUIRE(met == 2 * count);

  const size_t bytes = 2 * count * sizeof(Node);
  int last_prefetch = -100, mostly_read = -1;
#if CUDART_VERSION >= 13000
  const cudaMemLocation device = {cudaMemLocationTypeDevice, {0}};
  CHECK(cudaMemPrefetchAsync(nodes, bytes, device, 0, cudaStreamLegacy));
  CHECK(cudaMemAdvise(nodes, bytes, cudaMemAdviseSetReadMostly, device));
#else
  CHECK(cudaMemPrefetchAsync(nodes, bytes, 0, cudaStreamLegacy));
  CHECK(cudaMemAdvise(nodes, bytes, cudaMemAdviseSetReadMostly, 0));
#endif
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemRangeGetAttribute(&last_prefetch, sizeof(int), cudaMemRangeAttributeLastPrefetchLocation,
                                 nodes, bytes));
  REQUIRE(last_prefetch == 0);
  CHECK(cudaMemRangeGetAttribute(&mostly_read, sizeof(int), cudaMemRangeAttributeReadMostly, nodes, bytes));
  REQUIRE(mostly_read == 1);

  total = 0;
  CHECK(cudaMemset(nodes, 0, count * sizeof(Node)));
  CHECK(cudaDeviceSynchronize());
  head = &nodes[count];
  sum_list<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  REQUIRE(total == 7 * count);
  CHECK(cudaFree(nodes));
  return ok();
}
