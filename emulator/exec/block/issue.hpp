#pragma once

#include <utility>
#include <vector>

#include "exec/block/block.hpp"
#include "exec/block/pending.hpp"

namespace emulator {

// Does what lanes issue on the track: now, or where the launch defers it, whole and after what they have
// issued there before. signals: mbarriers that it tells of its end.
template <typename Perform>
void issue_together(Warp &w, uint32_t lanes, Track track, std::vector<uint64_t> signals, Perform perform) {
  if (!w.block->pending) {
    perform();
    return;
  }
  PendingOperation operation;
  operation.warp = &w;
  operation.lanes = lanes;
  operation.track = track;
  operation.in_order = true;
  operation.signals = std::move(signals);
  operation.finish = [perform = std::move(perform)](uint32_t) { perform(); };
  w.block->pending->issue(std::move(operation));
}
template <typename Perform>
void issue_in_order(Warp &w, uint32_t lane, Track track, std::vector<uint64_t> signals, Perform perform) {
  issue_together(w, uint32_t{1} << lane, track, std::move(signals), std::move(perform));
}

} // namespace emulator
