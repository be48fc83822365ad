// Launches of every form, what is known of kernels, occupancy.
#include "check.h"

#include <cooperative_groups.h>
#include <cstring>

__global__ void __launch_bounds__(256) sum_shared(const int *in, int *out, int count) {
  extern __shared__ int values[];
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    values[i] = in[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < count; ++i)
      total += values[i];
    out[blockIdx.x] = total;
  }
}

__global__ void everybody(int *cells) {
  auto grid = cooperative_groups::this_grid();
  cells[blockIdx.x] = 1;
  grid.sync();
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; ++i)
      total += cells[i];
    cells[gridDim.x] = total;
  }
}

struct Big {
  double values[40];
};

template <int N, typename T> __global__ void last_of(Big big, T *out) {
  *out = static_cast<T>(big.values[N]);
}

__global__ void outer(int *out) { *out += 1; }

static int launch_inside(int *memory) {
  outer<<<1, 1>>>(memory);
  return 1;
}

int main() {
  int *in, *out;
  OK(cudaMallocManaged(&in, 20000 * sizeof(int)));
  OK(cudaMallocManaged(&out, 64 * sizeof(int)));
  for (int i = 0; i < 20000; ++i)
    in[i] = 1;

  // More than 48 KiB of dynamic shared memory has to be asked for.
  sum_shared<<<1, 128, 80000>>>(in, out, 20000);
  ERROR_IS(cudaGetLastError(), cudaErrorInvalidValue);
  OK(cudaFuncSetAttribute(sum_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 80000));
  sum_shared<<<2, 128, 80000>>>(in, out, 20000);
  OK(cudaDeviceSynchronize());
  CHECK(out[0] == 20000 && out[1] == 20000);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, sum_shared));
  CHECK(attributes.maxThreadsPerBlock == 256 && attributes.maxDynamicSharedSizeBytes == 80000);
  CHECK(attributes.numRegs > 0 && attributes.ptxVersion >= 50 && attributes.sharedSizeBytes == 0);
  OK(cudaFuncSetCacheConfig(sum_shared, cudaFuncCachePreferL1));
  ERROR_IS(cudaFuncSetAttribute(sum_shared, static_cast<cudaFuncAttribute>(99), 1), cudaErrorInvalidValue);

  // Through the functions instead of <<<...>>>.
  int count = 100;
  void *arguments[] = {&in, &out, &count};
  OK(cudaLaunchKernel(reinterpret_cast<const void *>(sum_shared), dim3(1), dim3(32), arguments, 400,
                      nullptr));
  OK(cudaDeviceSynchronize());
  CHECK(out[0] == 100);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2);
  config.blockDim = dim3(64);
  config.dynamicSmemBytes = 200;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributePriority;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, sum_shared, static_cast<const int *>(in), out, 50));
  OK(cudaDeviceSynchronize());
  CHECK(out[1] == 50);
  int x = 0;
  ERROR_IS(cudaLaunchKernel(&x, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  ERROR_IS(cudaFuncGetAttributes(&attributes, &x), cudaErrorInvalidDeviceFunction);
  ERROR_IS(
      cudaLaunchKernel(reinterpret_cast<const void *>(sum_shared), dim3(0), dim3(32), arguments, 0, nullptr),
      cudaErrorInvalidConfiguration);
  cudaGetLastError();
  // Handles of kernels stand for their functions.
  cudaKernel_t kernel;
  OK(cudaGetKernel(&kernel, sum_shared));
  count = 10;
  OK(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(1), dim3(32), arguments, 400, nullptr));
  OK(cudaDeviceSynchronize());
  CHECK(out[0] == 10);
  const char *name;
  OK(cudaFuncGetName(&name, sum_shared));
  CHECK(std::strstr(name, "sum_shared") != nullptr);
  size_t offset, size;
  OK(cudaFuncGetParamInfo(reinterpret_cast<const void *>(sum_shared), 2, &offset, &size));
  CHECK(offset == 16 && size == 4);
  ERROR_IS(cudaFuncGetParamInfo(reinterpret_cast<const void *>(sum_shared), 3, &offset, &size),
           cudaErrorInvalidValue);
  cudaGetLastError();

  int *cells;
  OK(cudaMallocManaged(&cells, 9 * sizeof(int)));
  void *cell_arguments[] = {&cells};
  OK(cudaLaunchCooperativeKernel(everybody, dim3(8), dim3(32), cell_arguments, 0, nullptr));
  OK(cudaDeviceSynchronize());
  CHECK(cells[8] == 8);
  ERROR_IS(cudaLaunchCooperativeKernel(everybody, dim3(100000), dim3(32), cell_arguments, 0, nullptr),
           cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();

  Big big{};
  big.values[39] = 2.75;
  double *answer;
  OK(cudaMallocManaged(&answer, sizeof *answer));
  last_of<39><<<1, 1>>>(big, answer);
  OK(cudaDeviceSynchronize());
  CHECK(*answer == 2.75);
  int *integer = reinterpret_cast<int *>(answer);
  last_of<39><<<1, launch_inside(cells)>>>(big, integer);
  OK(cudaDeviceSynchronize());
  CHECK(*integer == 2 && cells[0] == 2);

  int blocks, minimum_grid, block_size, more;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum_shared, 256, 0));
  CHECK(blocks >= 1 && blocks <= 32);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&more, sum_shared, 256, 80000));
  CHECK(more <= blocks && more >= 1);
  OK(cudaOccupancyMaxPotentialBlockSize(&minimum_grid, &block_size, sum_shared, 0, 0));
  CHECK(block_size == 256 && minimum_grid >= 16);
  size_t available;
  OK(cudaOccupancyAvailableDynamicSMemPerBlock(&available, sum_shared, 2, 128));
  CHECK(available >= 1024);
  std::puts("ok");
}
