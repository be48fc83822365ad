#include "exec/copies/launch_control.hpp"

#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/mbarrier.hpp"

namespace emulator::launch_control {

const Instruction *try_cancel(Warp &w, const Instruction *i) {
  constexpr uint32_t answer_bytes = 16;
  const Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane), signal = operand<uint64_t>(w, i, 1, lane);
    if (to % answer_bytes != 0)
      misaligned(w, i, lane, to, answer_bytes);
    if (cluster.block_at(to, answer_bytes) != w.block || cluster.block_at(signal, 8) != w.block)
      fail(w, i, LaunchStatus::illegal_address,
           "clusterlaunchcontrol.try_cancel with an address that is not in the block's shared memory", lane);
    uint32_t answer[4] = {0, 0, 0, 0};
    if (w.worker->next_cluster < w.launch->clusters) {
      uint32_t first[3];
      cluster_position(*w.launch->request, w.worker->next_cluster++, first);
      std::memcpy(answer, first, sizeof first);
      answer[3] = 1;
    }
    uint64_t own = w.shared_base;
    for (const auto &block : cluster.blocks) {
      if (block.get() != w.block && !i->immediate)
        continue;
      uint64_t base = block->warps[0].shared_base;
      std::memcpy(reinterpret_cast<void *>(to - own + base), answer, answer_bytes);
      mbarrier::complete_bytes(w, i, lane, signal - own + base, answer_bytes);
    }
  }
  return i + 1;
}

} // namespace emulator::launch_control
