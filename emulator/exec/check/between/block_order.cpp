#include "exec/check/between/block_order.hpp"

#include <algorithm>

namespace emulator {

void BlockOrder::prepare(uint32_t threads, Clocks &clocks) {
  clocks_ = &clocks;
  threads_.resize((threads + lanes_per_warp - 1) / lanes_per_warp * lanes_per_warp);
}

void BlockOrder::start(uint64_t block) {
  block_ = block;
  join_all();
  all_ = {};
  places_.clear();
  elsewhere_ = {};
}

void BlockOrder::Sets::join(const Sets &other) {
  acquired.join(other.acquired);
  fenced.join(other.fenced);
  released.join(other.released);
}

BlockOrder::Sets &BlockOrder::changing(uint32_t thread) {
  Sets &sets = threads_[thread];
  if (sets.empty())
    changed_.push_back(thread);
  return sets;
}

Known BlockOrder::told_by(uint32_t thread) {
  Known all = all_.acquired;
  all.join(threads_[thread].acquired);
  all.add(block_, {clocks_->phase(), std::make_shared<std::vector<uint32_t>>(clocks_->tell(thread))});
  return all;
}

void BlockOrder::fence(uint32_t thread, bool among_block) {
  if (Sets &sets = threads_[thread]; !sets.acquired.empty())
    sets.fenced = sets.acquired;
  if (among_block)
    return;
  Known told = told_by(thread);
  changing(thread).released.join(told);
}

void BlockOrder::read_strongly(uint32_t thread, const Known &place) {
  if (!place.empty())
    changing(thread).acquired.join(place);
}

void BlockOrder::write_strongly(uint32_t thread, Known &place, bool releases) {
  place.join(all_.released);
  place.join(threads_[thread].released);
  if (releases)
    place.join(told_by(thread));
}

void BlockOrder::read_in_block(uint32_t thread, uint64_t address) {
  auto learn = [&](const Sets &place) {
    if (!place.empty())
      changing(thread).join({place.acquired, {}, place.released});
  };
  if (auto found = places_.find(address / 4); found != places_.end())
    learn(found->second);
  learn(elsewhere_);
}

void BlockOrder::write_in_block(uint32_t thread, uint64_t address, bool releases) {
  const Sets &sets = threads_[thread];
  const Known &told = releases ? sets.acquired : sets.fenced;
  if (told.empty() && sets.released.empty())
    return; // what all of the block know needs no handing on
  const uint64_t word = address / 4;
  Sets &place = places_.count(word) || places_.size() < most_places ? places_[word] : elsewhere_;
  place.join({told, {}, sets.released});
}

void BlockOrder::join_lanes(uint32_t warp, uint32_t lanes) {
  uint32_t first = warp * lanes_per_warp;
  Sets together;
  for (uint32_t thread : changed_)
    if (thread / lanes_per_warp == warp && (lanes >> (thread % lanes_per_warp) & 1)) {
      together.join(threads_[thread]);
    }
  if (together.empty())
    return;
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    if (lanes >> l & 1)
      changing(first + l) = together;
}

void BlockOrder::join_all() {
  for (uint32_t thread : changed_) {
    all_.join(threads_[thread]);
    threads_[thread] = {};
  }
  changed_.clear();
}

} // namespace emulator
