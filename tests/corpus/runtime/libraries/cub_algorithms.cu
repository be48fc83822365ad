// covers: CUB on the device, the block and the warp: reduce, scan, radix sort.
#include <algorithm>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/warp/warp_scan.cuh>
#include <numeric>

#include "../check.cuh"

// Runs a device algorithm of CUB: once for the size of its memory, once for the result.
template <class F> void with_storage(F algorithm) {
  size_t bytes = 0;
  CHECK(algorithm(nullptr, bytes));
  Buffer<char> storage(bytes + 1);
  CHECK(algorithm(storage.data, bytes));
}

__global__ void of_block(const int *in, int *sums, int *sorted) {
  using Reduce = cub::BlockReduce<int, 64>;
  using Sort = cub::BlockRadixSort<int, 64, 2>;
  using Scan = cub::WarpScan<int>;
  __shared__ union {
    Reduce::TempStorage reduce;
    Sort::TempStorage sort;
    Scan::TempStorage scan[2];
  } storage;
  int keys[2] = {in[blockIdx.x * 128 + 2 * threadIdx.x], in[blockIdx.x * 128 + 2 * threadIdx.x + 1]};
  int sum = Reduce(storage.reduce).Sum(keys[0] + keys[1]), running;
  __syncthreads();
  Scan(storage.scan[threadIdx.x / 32]).ExclusiveSum(1, running);
  __syncthreads();
  Sort(storage.sort).Sort(keys);
  sorted[blockIdx.x * 128 + 2 * threadIdx.x] = keys[0];
  sorted[blockIdx.x * 128 + 2 * threadIdx.x + 1] = keys[1];
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
  if (running != threadIdx.x % 32)
    sums[blockIdx.x] = -1;
}

int main() {
  const int count = 3000;
  auto values = random_values<int>(count);
  for (int &value : values)
    value %= 5000;
  Buffer<int> in(values), out(count), one(1), sorted_order(count);
  with_storage([&](void *s, size_t &n) { return cub::DeviceReduce::Sum(s, n, in.data, one.data, count); });
  equal("sum", one.host(), {std::accumulate(values.begin(), values.end(), 0)});
  with_storage([&](void *s, size_t &n) { return cub::DeviceReduce::Max(s, n, in.data, one.data, count); });
  equal("max", one.host(), {*std::max_element(values.begin(), values.end())});

  std::vector<int> expected(count);
  with_storage(
      [&](void *s, size_t &n) { return cub::DeviceScan::InclusiveSum(s, n, in.data, out.data, count); });
  std::partial_sum(values.begin(), values.end(), expected.begin());
  equal("scan", out.host(), expected);

  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  Buffer<int> positions(numbers);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceRadixSort::SortPairs(s, n, in.data, out.data, positions.data, sorted_order.data, count);
  });
  std::stable_sort(numbers.begin(), numbers.end(), [&](int a, int b) { return values[a] < values[b]; });
  equal("sorted positions", sorted_order.host(), numbers);

  Buffer<int> sums(4), sorted(512);
  of_block<<<4, 64>>>(in, sums, sorted);
  std::vector<int> parts(values.begin(), values.begin() + 512), totals;
  for (int block = 0; block < 4; block++) {
    auto first = parts.begin() + block * 128;
    totals.push_back(std::accumulate(first, first + 128, 0));
    std::sort(first, first + 128);
  }
  equal("block sums", sums.host(), totals);
  equal("block sort", sorted.host(), parts);
  return ok();
}
