// covers: malloc, free, new and delete in kernels; memory kept between launches; a full heap; its size.
#include "../check.cuh"

struct Node {
  int value;
  Node *next;
};

// A list per thread, longest first; the next launch walks and frees it.
__global__ void build(Node **lists) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  Node *head = nullptr;
  for (int k = 0; k <= i % 7; k++)
    head = new Node{i * 10 + k, head};
  lists[i] = head;
}

__global__ void walk(Node **lists, int *sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
  for (Node *node = lists[i]; node;) {
    sum = sum * 3 + node->value;
    Node *next = node->next;
    delete node;
    node = next;
  }
  sums[i] = sum;
  lists[i] = nullptr; // the addresses of a heap are not the same in every run
}

// Memory of one thread is there for its block; different pieces do not overlap.
__global__ void share(int *out, int *aligned) {
  __shared__ int *memory;
  if (threadIdx.x == 0)
    memory = (int *)malloc(blockDim.x * sizeof(int));
  __syncthreads();
  memory[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
  if (threadIdx.x == 0)
    aligned[blockIdx.x] = (uintptr_t)memory % 16 == 0;
  __syncthreads();
  if (threadIdx.x == 0)
    free(memory);
}

__global__ void exhaust(size_t bytes, int *refused, int *again) {
  void *large = malloc(bytes);
  *refused = large == nullptr;
  free(large);
  void *small = malloc(1000);
  *again = small != nullptr;
  free(small);
  free(nullptr);
}

int main() {
  size_t heap = 4 << 20, got = 0;
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));
  CHECK(cudaDeviceGetLimit(&got, cudaLimitMallocHeapSize));
  REQUIRE(got >= heap);

  const int threads = 256;
  Buffer<Node *> lists(threads);
  Buffer<int> sums(threads);
  std::vector<int> expected;
  for (int i = 0; i < threads; i++) {
    int sum = 0;
    for (int k = i % 7; k >= 0; k--)
      sum = sum * 3 + i * 10 + k;
    expected.push_back(sum);
  }
  for (int round = 0; round < 3; round++) {
    build<<<4, 64>>>(lists);
    walk<<<4, 64>>>(lists, sums);
    equal("sums", sums.host(), expected);
  }

  Buffer<int> out(6 * 50), aligned(6);
  share<<<6, 50>>>(out, aligned);
  std::vector<int> reversed;
  for (int i = 0; i < 6 * 50; i++)
    reversed.push_back(i / 50 * 1000 + 49 - i % 50);
  equal("share", out.host(), reversed);
  equal("aligned", aligned.host(), std::vector<int>(6, 1));

  Buffer<int> refused(1), again(1);
  exhaust<<<1, 1>>>(1ULL << 40, refused, again);
  REQUIRE(refused.host()[0] == 1 && again.host()[0] == 1);
  return ok();
}
