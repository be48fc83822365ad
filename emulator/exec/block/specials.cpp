#include "exec/block/specials.hpp"

#include <algorithm>

namespace emulator {

bool changes_with_block(Special special) {
  switch (special) {
  case Special::ctaid_x:
  case Special::ctaid_y:
  case Special::ctaid_z:
  case Special::smid:
  case Special::clusterid_x:
  case Special::clusterid_y:
  case Special::clusterid_z:
  case Special::cluster_ctaid_x:
  case Special::cluster_ctaid_y:
  case Special::cluster_ctaid_z:
  case Special::cluster_ctarank:
    return true;
  default:
    return false;
  }
}

uint64_t special_value(const Warp &warp, uint64_t block_index, uint32_t lane, Special special) {
  const LaunchRequest &request = *warp.launch->request;
  const Dim3 &n = request.block;
  Dim3 cluster{std::max(1u, request.cluster.x), std::max(1u, request.cluster.y),
               std::max(1u, request.cluster.z)};
  uint32_t linear = warp.index * lanes_per_warp + lane;
  auto in_cluster = [&](int d, uint32_t extent) { return warp.position[d] % extent; };
  switch (special) {
  case Special::tid_x:
    return linear % n.x;
  case Special::tid_y:
    return linear / n.x % n.y;
  case Special::tid_z:
    return linear / n.x / n.y;
  case Special::ntid_x:
    return n.x;
  case Special::ntid_y:
    return n.y;
  case Special::ntid_z:
    return n.z;
  case Special::ctaid_x:
    return warp.position[0];
  case Special::ctaid_y:
    return warp.position[1];
  case Special::ctaid_z:
    return warp.position[2];
  case Special::nctaid_x:
    return request.grid.x;
  case Special::nctaid_y:
    return request.grid.y;
  case Special::nctaid_z:
    return request.grid.z;
  case Special::laneid:
    return lane;
  case Special::warpid:
    return warp.index;
  case Special::nwarpid:
    return 64;
  case Special::smid:
    return block_index % std::max(1u, request.multiprocessors);
  case Special::nsmid:
    return std::max(1u, request.multiprocessors);
  case Special::gridid:
    return 1;
  case Special::lanemask_eq:
    return uint32_t{1} << lane;
  case Special::lanemask_le:
    return (uint64_t{2} << lane) - 1;
  case Special::lanemask_lt:
    return (uint64_t{1} << lane) - 1;
  case Special::lanemask_ge:
    return ~uint32_t{0} << lane;
  case Special::lanemask_gt:
    return static_cast<uint32_t>(~uint64_t{0} << (lane + 1));
  case Special::clusterid_x:
    return warp.position[0] / cluster.x;
  case Special::clusterid_y:
    return warp.position[1] / cluster.y;
  case Special::clusterid_z:
    return warp.position[2] / cluster.z;
  case Special::nclusterid_x:
    return request.grid.x / cluster.x;
  case Special::nclusterid_y:
    return request.grid.y / cluster.y;
  case Special::nclusterid_z:
    return request.grid.z / cluster.z;
  case Special::cluster_ctaid_x:
    return in_cluster(0, cluster.x);
  case Special::cluster_ctaid_y:
    return in_cluster(1, cluster.y);
  case Special::cluster_ctaid_z:
    return in_cluster(2, cluster.z);
  case Special::cluster_nctaid_x:
    return cluster.x;
  case Special::cluster_nctaid_y:
    return cluster.y;
  case Special::cluster_nctaid_z:
    return cluster.z;
  case Special::cluster_ctarank:
    return in_cluster(0, cluster.x) +
           cluster.x * (in_cluster(1, cluster.y) + cluster.y * in_cluster(2, cluster.z));
  case Special::cluster_nctarank:
    return uint64_t{cluster.x} * cluster.y * cluster.z;
  case Special::is_explicit_cluster:
    return uint64_t{cluster.x} * cluster.y * cluster.z > 1;
  case Special::dynamic_smem_size:
    return request.dynamic_shared_bytes;
  case Special::total_smem_size:
    return warp.launch->shared_whole_bytes;
  case Special::one:
    return 1;
  case Special::parameters:
    return reinterpret_cast<uint64_t>(warp.launch->parameters);
  case Special::envreg1:
    return reinterpret_cast<uint64_t>(warp.launch->workspace.data()) >> 32;
  case Special::envreg2:
    return reinterpret_cast<uint64_t>(warp.launch->workspace.data()) & 0xffffffff;
  default:
    return 0;
  }
}

} // namespace emulator
