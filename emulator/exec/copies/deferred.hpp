#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "exec/block/pending.hpp"

namespace emulator {

// Issues an operation of one lane that takes bytes from where they are and delivers them elsewhere: both when
// it is done, or the first when a wait asks that its sources may change. take(std::vector<uint8_t> &),
// deliver(const uint8_t *).
template <typename Take, typename Deliver>
void defer(Warp &w, PendingOperations &pending, uint32_t lane, Track track, std::vector<uint64_t> signals,
           Take take, Deliver deliver) {
  auto contents = std::make_shared<std::vector<uint8_t>>();
  PendingOperation operation;
  operation.warp = &w;
  operation.lanes = uint32_t{1} << lane;
  operation.track = track;
  operation.signals = std::move(signals);
  operation.read = [contents, take] { take(*contents); };
  operation.finish = [contents, take, deliver](uint32_t) {
    if (contents->empty())
      take(*contents);
    deliver(contents->data());
  };
  pending.issue(std::move(operation));
}

} // namespace emulator
