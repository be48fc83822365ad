// covers: CUB on the device: select, unique, partition, histogram, merge sort, runs, segments, scans by key.
#include <algorithm>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_partition.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <cub/device/device_select.cuh>
#include <map>
#include <numeric>

#include "../check.cuh"

// Runs a device algorithm of CUB: once for the size of its memory, once for the result.
template <class F> void with_storage(F algorithm) {
  size_t bytes = 0;
  CHECK(algorithm(nullptr, bytes));
  Buffer<char> storage(bytes + 1);
  CHECK(algorithm(storage.data, bytes));
}

struct IsOdd {
  __host__ __device__ bool operator()(int value) const { return value & 1; }
};
struct Less {
  template <class T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};

template <class T> std::vector<T> first(const Buffer<T> &buffer, int count) {
  auto all = buffer.host();
  return {all.begin(), all.begin() + count};
}

int main() {
  const int count = 4500;
  auto values = random_values<int>(count);
  for (int &value : values)
    value = (value & 0x7fffffff) % 300;
  Buffer<int> in(values), out(count), number(1);
  std::vector<int> expected;

  with_storage([&](void *s, size_t &n) {
    return cub::DeviceSelect::If(s, n, in.data, out.data, number.data, count, IsOdd{});
  });
  std::copy_if(values.begin(), values.end(), std::back_inserter(expected), IsOdd{});
  equal("select if, number", number.host(), {static_cast<int>(expected.size())});
  equal("select if", first(out, static_cast<int>(expected.size())), expected);

  with_storage([&](void *s, size_t &n) {
    return cub::DevicePartition::If(s, n, in.data, out.data, number.data, count, IsOdd{});
  });
  for (int i = count; i-- > 0;) // the others follow in reverse
    if (!IsOdd{}(values[i]))
      expected.push_back(values[i]);
  equal("partition", out.host(), expected);

  Buffer<int> bins(30);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceHistogram::HistogramEven(s, n, in.data, bins.data, 31, 0, 300, count);
  });
  expected.assign(30, 0);
  for (int value : values)
    ++expected[value / 10];
  equal("histogram", bins.host(), expected);

  auto sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> reals(values.begin(), values.end());
  Buffer<double> keys(reals);
  Buffer<int> items(values);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceMergeSort::SortPairs(s, n, keys.data, items.data, count, Less{});
  });
  equal("merge sort, keys", keys.host(), std::vector<double>(sorted.begin(), sorted.end()));
  equal("merge sort, values", items.host(), sorted);

  Buffer<long long> wide_out(count);
  std::vector<long long> wide(values.begin(), values.end());
  for (size_t i = 0; i < wide.size(); i++)
    wide[i] = (wide[i] << 33) - static_cast<long long>(i) * 12345678901;
  Buffer<long long> wide_in(wide);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceRadixSort::SortKeysDescending(s, n, wide_in.data, wide_out.data, count);
  });
  std::sort(wide.rbegin(), wide.rend());
  equal("radix sort", wide_out.host(), wide);

  // Runs of the sorted numbers.
  std::map<int, int> runs;
  for (int value : values)
    ++runs[value];
  std::vector<int> run_values, run_lengths;
  for (auto [value, length] : runs) {
    run_values.push_back(value);
    run_lengths.push_back(length);
  }
  int different = static_cast<int>(runs.size());
  Buffer<int> ordered(sorted), lengths(count);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceRunLengthEncode::Encode(s, n, ordered.data, out.data, lengths.data, number.data, count);
  });
  equal("runs, number", number.host(), {different});
  equal("runs, values", first(out, different), run_values);
  equal("runs, lengths", first(lengths, different), run_lengths);

  with_storage([&](void *s, size_t &n) {
    return cub::DeviceReduce::ReduceByKey(s, n, ordered.data, out.data, ordered.data, lengths.data,
                                          number.data, cuda::std::plus<>{}, count);
  });
  for (int run = 0; run < different; run++)
    run_lengths[run] *= run_values[run];
  equal("reduce by key", first(lengths, different), run_lengths);

  // Segments of growing lengths, the first one empty.
  std::vector<int> offsets{0};
  while (offsets.back() < count)
    offsets.push_back(std::min<int>(count, offsets.back() + static_cast<int>(offsets.size() - 1) * 40));
  int segments = static_cast<int>(offsets.size()) - 1;
  Buffer<int> starts(offsets);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceSegmentedReduce::Sum(s, n, in.data, out.data, segments, starts.data, starts.data + 1);
  });
  expected.clear();
  for (int s = 0; s < segments; s++)
    expected.push_back(std::accumulate(values.begin() + offsets[s], values.begin() + offsets[s + 1], 0));
  equal("segmented sum", first(out, segments), expected);
  with_storage([&](void *s, size_t &n) {
    return cub::DeviceSegmentedSort::SortKeys(s, n, in.data, out.data, count, segments, starts.data,
                                              starts.data + 1);
  });
  expected = values;
  for (int s = 0; s < segments; s++)
    std::sort(expected.begin() + offsets[s], expected.begin() + offsets[s + 1]);
  equal("segmented sort", out.host(), expected);
  std::puts("ok");
}
