#include "exec/access/wide.hpp"

#include <cstring>
#include <mutex>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"

namespace emulator::wide {

namespace {
constexpr uint32_t bytes = 16;
// Kernels with atomics run on one thread each; this keeps those of several streams apart.
std::mutex one_at_a_time;
} // namespace

const Instruction *atomic(Warp &w, const Instruction *i) {
  const uint32_t *row = w.program->extra.data() + i->extra;
  auto value = [&](uint32_t number, uint32_t lane) { return w.row<uint64_t>(row[number])[lane]; };
  bool compares = row[3] != no_offset;
  uint64_t addresses[lanes_per_warp] = {};
  uint32_t counted = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    uint64_t address = addresses[lane] = value(0, lane);
    if (address % bytes != 0)
      misaligned(w, i, lane, address, bytes);
    check_access(w, i, lane, address, bytes, true);
    counted |= uint32_t{!w.block->cluster->block_at(address, bytes)} << lane;
    uint64_t old[2], operand[2] = {value(1, lane), value(2, lane)};
    {
      std::lock_guard<std::mutex> hold(one_at_a_time);
      std::memcpy(old, reinterpret_cast<const void *>(address), bytes);
      if (!compares) {
        std::memcpy(reinterpret_cast<void *>(address), operand, bytes);
      } else if (old[0] == operand[0] && old[1] == operand[1]) {
        uint64_t next[2] = {value(3, lane), value(4, lane)};
        std::memcpy(reinterpret_cast<void *>(address), next, bytes);
      }
    }
    if (row[5] != no_offset) {
      w.row<uint64_t>(row[5])[lane] = old[0];
      w.row<uint64_t>(row[6])[lane] = old[1];
    }
  }
  if (counted)
    count_global(w, addresses, counted, bytes, true);
  if (w.block->checks) {
    Reach reach;
    reach.active = w.active;
    reach.pattern = Pattern::far_apart;
    w.block->checks->access(w, i, reach, 0, addresses, bytes, AccessKind::atomic);
  }
  return i + 1;
}

} // namespace emulator::wide
