// Blocks of a cluster add up their parts and read one another's sums from shared memory.
// target: compute_90, PTX 7.8
#include <cooperative_groups.h>

extern "C" __global__ void cluster_sum(const unsigned *values, unsigned *sums, unsigned count) {
  auto cluster = cooperative_groups::this_cluster();
  __shared__ unsigned sum;
  if (threadIdx.x == 0)
    sum = 0;
  __syncthreads();
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    atomicAdd(&sum, values[i]);
  cluster.sync();
  if (threadIdx.x == 0) {
    unsigned total = 0;
    for (unsigned block = 0; block < cluster.num_blocks(); block++)
      total += (cluster.block_rank() + 1) * *cluster.map_shared_rank(&sum, block);
    sums[blockIdx.x] += total;
  }
  cluster.sync(); // no block may end while another one reads its shared memory
}
