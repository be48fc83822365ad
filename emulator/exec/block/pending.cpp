#include "exec/block/pending.hpp"

#include <algorithm>

namespace emulator {

namespace {

bool precedes(const PendingOperation &earlier, const PendingOperation &later) {
  return earlier.warp == later.warp && earlier.track == later.track && (earlier.lanes & later.lanes) != 0;
}

} // namespace

void PendingOperations::start(uint64_t cluster) {
  operations_.clear();
  groups_.clear();
  asked_.clear();
  maps_before_.clear();
  state_ = seed_ + (cluster + 1) * 0x9e3779b97f4a7c15;
  one_in_ = uint64_t{2} << draw() % 6; // some clusters are slower than others
}

// SplitMix64.
uint64_t PendingOperations::draw() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

PendingOperations::Groups &PendingOperations::groups_of(const Warp &warp) {
  for (Groups &groups : groups_)
    if (groups.warp == &warp)
      return groups;
  groups_.push_back({&warp, {}});
  return groups_.back();
}

void PendingOperations::issue(PendingOperation operation) { operations_.push_back(std::move(operation)); }

size_t PendingOperations::finish(size_t at, uint32_t lanes) {
  if (operations_[at].in_order) {
    lanes = operations_[at].lanes;
    for (size_t k = 0; k < at;) {
      if (!precedes(operations_[k], operations_[at])) {
        ++k;
        continue;
      }
      size_t before = operations_.size();
      k = finish(k, lanes);
      at -= before - operations_.size();
    }
  }
  PendingOperation &operation = operations_[at];
  lanes &= operation.lanes;
  operation.lanes &= ~lanes;
  if (operation.lanes != 0) {
    operation.finish(lanes);
    return at + 1;
  }
  PendingOperation done = std::move(operation);
  operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(at));
  done.finish(lanes);
  return at;
}

void PendingOperations::commit(Warp &warp, Track track, uint32_t lanes) {
  Groups &groups = groups_of(warp);
  size_t t = static_cast<size_t>(track);
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    ++groups.count[t][first_lane(rest)];
  for (PendingOperation &operation : operations_) {
    if (operation.warp != &warp || operation.track != track)
      continue;
    for (uint32_t rest = operation.lanes & lanes; rest; rest &= rest - 1) {
      uint32_t lane = first_lane(rest);
      if (operation.group[lane] == 0)
        operation.group[lane] = groups.count[t][lane];
    }
  }
  pass_moment();
}

void PendingOperations::wait(Warp &warp, Track track, uint32_t lanes, uint64_t most, bool reading) {
  pass_moment();
  const Groups groups = groups_of(warp);
  for (size_t k = 0; k < operations_.size();) {
    PendingOperation &operation = operations_[k];
    uint32_t due = 0;
    for (uint32_t rest = operation.warp == &warp && operation.track == track ? operation.lanes & lanes : 0;
         rest; rest &= rest - 1) {
      uint32_t lane = first_lane(rest), group = operation.group[lane];
      if (group != 0 && group + most <= groups.count[static_cast<size_t>(track)][lane])
        due |= uint32_t{1} << lane;
    }
    if (reading && due) {
      if (operation.read)
        operation.read();
      operation.read = nullptr;
      due = 0;
    }
    k = due ? finish(k, due) : k + 1;
  }
}

void PendingOperations::finish_groups(const Warp &warp, Track track, uint32_t last) {
  for (size_t k = 0; k < operations_.size();) {
    const PendingOperation &operation = operations_[k];
    bool due = operation.warp == &warp && operation.track == track && operation.group[0] != 0 &&
               operation.group[0] <= last;
    k = due ? finish(k, ~uint32_t{0}) : k + 1;
  }
}

void PendingOperations::wait_for_all(Warp &warp, Track track, uint32_t lanes) {
  commit(warp, track, lanes);
  wait(warp, track, lanes, 0, false);
}

bool PendingOperations::finish_for(uint64_t mbarrier) {
  for (size_t k = 0; k < operations_.size(); ++k) {
    const std::vector<uint64_t> &signals = operations_[k].signals;
    if (std::find(signals.begin(), signals.end(), mbarrier) == signals.end())
      continue;
    finish(k, operations_[k].lanes);
    return true;
  }
  return false;
}

void PendingOperations::finish_if_asked_before(uint64_t mbarrier) {
  auto found = std::find(asked_.begin(), asked_.end(), mbarrier);
  if (found == asked_.end()) {
    asked_.push_back(mbarrier);
  } else {
    asked_.erase(found);
    finish_for(mbarrier);
  }
}

void PendingOperations::map_changes(uint64_t map, size_t bytes) {
  const uint8_t *now = reinterpret_cast<const uint8_t *>(map);
  maps_before_.insert({map, std::vector<uint8_t>(now, now + bytes)});
}

void PendingOperations::finish_all() {
  while (!operations_.empty())
    finish(0, operations_[0].lanes);
}

void PendingOperations::finish_some() {
  for (size_t k = 0; k < operations_.size();) {
    uint64_t drawn = draw();
    // All lanes half of the time, else some of them.
    uint32_t some = drawn >> 32 & 1 ? ~uint32_t{0} : static_cast<uint32_t>(drawn >> 33);
    k = drawn % one_in_ == 0 && (operations_[k].lanes & some) ? finish(k, some) : k + 1;
  }
}

} // namespace emulator
