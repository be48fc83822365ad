// covers: cuda::atomic and cuda::atomic_ref of the scopes thread, block, device, system; memory orders.
#include <cuda/atomic>

#include "../check.cuh"

struct Counters {
  cuda::atomic<unsigned, cuda::thread_scope_device> sum;
  cuda::atomic<int, cuda::thread_scope_system> low;
  cuda::atomic<unsigned long long, cuda::thread_scope_device> bits;
};

__global__ void count(const int *in, Counters *counters, int *block_sums) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> block;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0)
    block.store(0, cuda::memory_order_relaxed);
  __syncthreads();
  block.fetch_add(in[i], cuda::memory_order_relaxed);
  counters->sum += in[i];
  counters->low.fetch_min(in[i], cuda::memory_order_seq_cst);
  counters->bits.fetch_or(1ull << (in[i] & 63), cuda::memory_order_acq_rel);
  __syncthreads();
  if (threadIdx.x == 0)
    block_sums[blockIdx.x] = block.load();
}

// On memory that is not atomic by its type; a largest value found by comparing and exchanging.
__global__ void by_reference(const int *in, int *largest, double *total, int *exchanged) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_device> most(*largest);
  int seen = most.load(cuda::memory_order_relaxed);
  while (seen < in[i] && !most.compare_exchange_weak(seen, in[i], cuda::memory_order_relaxed))
    ;
  cuda::atomic_ref<double, cuda::thread_scope_system>(*total).fetch_add(in[i] * 0.5);
  cuda::atomic_ref<int, cuda::thread_scope_thread> own(exchanged[i]);
  int before = own.exchange(in[i]);
  own.fetch_sub(before);
}

// Release and acquire: who sees the flag sees what was written before it.
__global__ void publish(int *data, int *flag, int *got) {
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 1) {
    data[0] = 4711;
    ready.store(1, cuda::memory_order_release);
    ready.notify_all();
  } else {
    ready.wait(0, cuda::memory_order_acquire);
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    got[0] = data[0];
  }
}

int main() {
  const int size = 512;
  auto values = random_values<int>(size);
  for (int &value : values)
    value %= 10000;
  Buffer<int> in(values), block_sums(4), largest(1), exchanged(size), data(1), flag(1), got(1);
  Buffer<Counters> counters(1);
  Buffer<double> total(1);
  counters.fill(0), largest.fill(0), total.fill(0), exchanged.fill(1), flag.fill(0);
  count<<<4, 128>>>(in, counters, block_sums);
  by_reference<<<4, 128>>>(in, largest, total, exchanged);
  publish<<<2, 1>>>(data, flag, got);

  unsigned sum = 0;
  int low = 0, high = 0;
  unsigned long long bits = 0;
  double half = 0;
  std::vector<int> sums(4), swapped;
  for (int i = 0; i < size; i++) {
    int v = values[i];
    sum += v, low = v < low ? v : low, high = v > high ? v : high, bits |= 1ull << (v & 63), half += v * 0.5;
    sums[i / 128] += v, swapped.push_back(v - 0x01010101);
  }
  static_assert(sizeof(Counters) == 16, "the counters lie side by side");
  unsigned char raw[sizeof(Counters)];
  CHECK(cudaMemcpy(raw, counters, sizeof(raw), cudaMemcpyDeviceToHost));
  REQUIRE(std::memcmp(raw, &sum, 4) == 0 && std::memcmp(raw + 4, &low, 4) == 0);
  REQUIRE(std::memcmp(raw + 8, &bits, 8) == 0);
  equal("blocks", block_sums.host(), sums);
  REQUIRE(largest.host()[0] == high && total.host()[0] == half);
  equal("exchanged", exchanged.host(), swapped);
  REQUIRE(got.host()[0] == 4711);
  return ok();
}
