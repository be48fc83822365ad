// covers: cudaLaunchCooperativeKernel: blocks that wait for the whole grid, and the limit on their number.
#include <cooperative_groups.h>

#include "../check.cuh"

namespace cg = cooperative_groups;

// `steps` of smoothing on a ring, in turns from one array to the other: each step needs all of the one
// before.
__global__ void smooth(int *a, int *b, int count, int steps) {
  cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; step++) {
    for (int i = grid.thread_rank(); i < count; i += grid.size())
      b[i] = (a[(i + count - 1) % count] + 2 * a[i] + a[(i + 1) % count]) / 4;
    grid.sync();
    int *next = a;
    a = b, b = next;
  }
}

// A sum of the grid in two parts: partial sums of blocks, added by the first block when all are there.
__global__ void sum(const int *in, int *partial, long long *out) {
  cg::grid_group grid = cg::this_grid();
  if (threadIdx.x == 0)
    partial[blockIdx.x] = 0;
  __syncthreads();
  atomicAdd(&partial[blockIdx.x], in[grid.thread_rank()]);
  grid.sync();
  if (grid.thread_rank() == 0) {
    *out = 0;
    for (unsigned block = 0; block < gridDim.x; block++)
      *out += partial[block];
    *out += grid.is_valid() ? 1000000000 : 0;
  }
}

int main() {
  int cooperative = 0, multiprocessors = 0, per_multiprocessor = 0;
  CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
  CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  REQUIRE(cooperative == 1);

  int count = 1000, steps = 12;
  auto values = random_values<int>(count);
  for (int &value : values)
    value = abs(value % 10000);
  Buffer<int> a(values), b(count);
  int *first = a, *second = b;
  void *arguments[] = {&first, &second, &count, &steps};
  CHECK(cudaLaunchCooperativeKernel((void *)smooth, dim3(6), dim3(64), arguments, 0, nullptr));
  auto expected = values;
  for (int step = 0; step < steps; step++) {
    auto last = expected;
    for (int i = 0; i < count; i++)
      expected[i] = (last[(i + count - 1) % count] + 2 * last[i] + last[(i + 1) % count]) / 4;
  }
  equal("smooth", a.host(), expected);

  Buffer<int> in(values), partial(5);
  Buffer<long long> out(1);
  const int *values_in = in;
  int *partial_sums = partial;
  long long *result = out, total = 1000000000;
  void *sum_arguments[] = {&values_in, &partial_sums, &result};
  CHECK(cudaLaunchCooperativeKernel(sum, dim3(5), dim3(96), sum_arguments, 0, nullptr));
  for (int i = 0; i < 5 * 96; i++)
    total += values[i];
  equal("sum", out.host(), {total});

  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, sum, 96, 0));
  dim3 too_many(multiprocessors * per_multiprocessor + 1);
  EXPECT(cudaLaunchCooperativeKernel(sum, too_many, dim3(96), sum_arguments, 0, nullptr),
         cudaErrorCooperativeLaunchTooLarge);
  REQUIRE(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
  return ok();
}
