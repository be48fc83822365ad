// Asynchronous operations that are issued and not done, where a launch defers them: each is done at the last
// moment that PTX ISA allows, or, with a seed, at moments drawn from it. Until then its results are not
// there, and its sources may still change.
//
// An operation that can be deferred gathers its operands, and hands what it does with them to `issue`. Where
// Cluster::pending is nullptr nothing is deferred, and it does it at once.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "exec/warp/warp.hpp"

namespace emulator {

// What tells of the end of an operation: groups, of which there is one series for each track and lane, or
// nothing but an mbarrier.
enum class Track : uint8_t { copies, bulk, products, tensor, tensor_loads, tensor_stores, signalled };
constexpr size_t tracks = 7;

// WaitingGroup::barrier of lanes that wait for other warps to commit what all multiply together.
constexpr int32_t waits_for_warpgroup = -4;

struct PendingOperation {
  Warp *warp = nullptr;
  uint32_t lanes = 0; // that it is not done for
  Track track = Track::signalled;
  bool in_order = false;         // after all that its lanes have issued before on its track, and whole
  std::vector<uint64_t> signals; // mbarriers that it completes bytes of, or arrives at
  // Called for lanes, of which it is then done; `read`, if there is one, before, when its sources may change.
  std::function<void(uint32_t lanes)> finish;
  std::function<void()> read;
  uint32_t group[lanes_per_warp] = {}; // 0: not in one yet
};

// Those of a cluster, in the order in which they were issued.
class PendingOperations {
public:
  explicit PendingOperations(uint64_t seed) : seed_(seed) {}
  void start(uint64_t cluster);
  bool has_seed() const { return seed_ != 0; }

  void issue(PendingOperation operation);
  // What these lanes have issued on the track and not committed becomes a group of each.
  void commit(Warp &warp, Track track, uint32_t lanes);
  // At most so many groups of each lane stay. With `reading`, others may stay that have read their sources.
  void wait(Warp &warp, Track track, uint32_t lanes, uint64_t groups, bool reading);
  // Of what all lanes of a warp issue together: how many groups there are; to be done with those up to
  // `last`.
  uint32_t groups_of_warp(const Warp &warp, Track track) {
    return groups_of(warp).count[static_cast<size_t>(track)][0];
  }
  void finish_groups(const Warp &warp, Track track, uint32_t last);
  // All that these lanes have issued on the track, in groups or not.
  void wait_for_all(Warp &warp, Track track, uint32_t lanes);
  // The first of those that signal this mbarrier; false when there is none.
  bool finish_for(uint64_t mbarrier);
  // Somebody has asked this mbarrier, and does not wait: who asks again finds it done in the end.
  void finish_if_asked_before(uint64_t mbarrier);
  // A tensor map in global memory is about to change: copies find what is there now, until a fence acquires
  // the map.
  void map_changes(uint64_t map, size_t bytes);
  void map_acquired(uint64_t map) { maps_before_.erase(map); }
  const void *map_as_seen(uint64_t map) const {
    auto found = maps_before_.find(map);
    return found == maps_before_.end() ? reinterpret_cast<const void *>(map) : found->second.data();
  }
  // At the end of the cluster.
  void finish_all();
  // With a seed some operations may be done now.
  void pass_moment() {
    if (has_seed() && !operations_.empty())
      finish_some();
  }

private:
  struct Groups {
    const Warp *warp;
    uint32_t count[tracks][lanes_per_warp];
  };
  Groups &groups_of(const Warp &warp);
  size_t finish(size_t at, uint32_t lanes); // answers where the one after it is then
  void finish_some();
  uint64_t draw();

  uint64_t seed_, state_ = 0;
  uint64_t one_in_ = 1; // of operations that may be done at a moment, one in so many is
  std::vector<PendingOperation> operations_;
  std::vector<Groups> groups_;
  std::vector<uint64_t> asked_;
  std::unordered_map<uint64_t, std::vector<uint8_t>> maps_before_;
};

} // namespace emulator
