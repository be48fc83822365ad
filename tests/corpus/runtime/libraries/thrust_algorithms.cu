// covers: Thrust with device vectors: transform, reduce, scan, sort by key, unique, copy_if, fancy iterators.
// options: --extended-lambda
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <algorithm>
#include <numeric>

#include "../check.cuh"

template <class T> std::vector<T> host(const thrust::device_vector<T> &values) {
  std::vector<T> copy(values.size());
  thrust::copy(values.begin(), values.end(), copy.begin());
  return copy;
}

int main() {
  const int count = 2000;
  auto values = random_values<int>(count);
  for (int &value : values)
    value %= 500;
  thrust::device_vector<int> in(values.begin(), values.end()), out(count);

  thrust::transform(in.begin(), in.end(), thrust::counting_iterator<int>(0), out.begin(),
                    [] __device__(int a, int i) { return a * 2 + i; });
  std::vector<int> expected(count);
  for (int i = 0; i < count; i++)
    expected[i] = values[i] * 2 + i;
  equal("transform", host(out), expected);
  REQUIRE(thrust::reduce(in.begin(), in.end(), 7) == std::accumulate(values.begin(), values.end(), 7));

  thrust::exclusive_scan(in.begin(), in.end(), out.begin(), 3);
  std::exclusive_scan(values.begin(), values.end(), expected.begin(), 3);
  equal("scan", host(out), expected);

  thrust::device_vector<int> keys = in, positions(count);
  thrust::sequence(positions.begin(), positions.end());
  thrust::stable_sort_by_key(keys.begin(), keys.end(), positions.begin());
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) { return values[a] < values[b]; });
  equal("positions", host(positions), expected);

  keys.erase(thrust::unique(keys.begin(), keys.end()), keys.end());
  auto different = values;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  equal("unique", host(keys), different);

  auto end = thrust::copy_if(in.begin(), in.end(), out.begin(), [] __device__(int a) { return a % 3 == 0; });
  out.resize(end - out.begin());
  std::vector<int> kept;
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept), [](int a) { return a % 3 == 0; });
  equal("kept", host(out), kept);

  thrust::sort(in.begin(), in.end(), thrust::greater<int>());
  std::sort(values.rbegin(), values.rend());
  equal("descending", host(in), values);
  in[3] = 12345; // one element, through a reference
  REQUIRE(in[3] == 12345);
  return ok();
}
