// covers: clusters of blocks: cudaLaunchKernelEx, __cluster_dims__, distributed shared memory, cluster.sync.
// architecture: 90
#include <cooperative_groups.h>

#include "../check.cuh"

namespace cg = cooperative_groups;

// A histogram spread over the shared memory of a cluster: block r holds bins r * bins .. of all its blocks.
__global__ void histogram(const int *in, int *out, int bins, int per_cluster) {
  extern __shared__ int mine[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x)
    mine[bin] = 0;
  cluster.sync();
  int first = blockIdx.x / cluster.num_blocks() * per_cluster;
  for (int i = cluster.thread_rank(); i < per_cluster; i += cluster.num_threads()) {
    int bin = in[first + i];
    atomicAdd(&cluster.map_shared_rank(mine, bin / bins)[bin % bins], 1);
  }
  cluster.sync(); // no block may end while others still write to it
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x)
    out[blockIdx.x * bins + bin] = mine[bin];
}

// Each block reads what its right neighbour wrote; ranks come from the cluster.
__global__ void __cluster_dims__(2, 2, 1) neighbours(int *out) {
  __shared__ int word;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank();
  word = 100 + rank;
  cluster.barrier_arrive();
  int block = blockIdx.y * gridDim.x + blockIdx.x;
  out[4 * block + 1] = cluster.block_index().x + 10 * cluster.block_index().y;
  cluster.barrier_wait();
  int *theirs = cluster.map_shared_rank(&word, (rank + 1) % cluster.num_blocks());
  out[4 * block] = *theirs;
  out[4 * block + 2] = cluster.query_shared_rank(theirs);
  out[4 * block + 3] = cluster.dim_blocks().x * 10 + cluster.dim_blocks().y;
  cluster.sync();
}

int main() {
  const int blocks = 4, clusters = 2, bins = 50, per_cluster = 1500;
  auto values = random_values<int>(clusters * per_cluster);
  std::vector<int> expected(clusters * blocks * bins);
  for (int i = 0; i < clusters * per_cluster; i++) {
    values[i] = int(unsigned(values[i]) % unsigned(blocks * bins));
    expected[i / per_cluster * blocks * bins + values[i]]++;
  }
  Buffer<int> in(values), out(expected.size());
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks * clusters, config.blockDim = 64, config.dynamicSmemBytes = bins * sizeof(int);
  config.attrs = &attribute, config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, histogram, (const int *)in.data, out.data, bins, per_cluster));
  equal("histogram", out.host(), expected);

  int possible = 0;
  CHECK(cudaOccupancyMaxActiveClusters(&possible, histogram, &config));
  REQUIRE(possible > 0);
  config.gridDim = blocks * clusters + 1; // no whole number of clusters
  EXPECT(cudaLaunchKernelEx(&config, histogram, (const int *)in.data, out.data, bins, per_cluster),
         cudaErrorInvalidClusterSize);
  cudaGetLastError();

  Buffer<int> seen(4 * 16);
  neighbours<<<dim3(4, 4), 1>>>(seen);
  std::vector<int> ranks;
  for (int y = 0; y < 4; y++)
    for (int x = 0; x < 4; x++) {
      int next = (y % 2 * 2 + x % 2 + 1) % 4;
      ranks.insert(ranks.end(), {100 + next, x % 2 + 10 * (y % 2), next, 22});
    }
  equal("neighbours", seen.host(), ranks);
  return ok();
}
