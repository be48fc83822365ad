#include "exec/check/within/clocks.hpp"

#include <algorithm>

namespace emulator {

void Clocks::prepare(uint32_t threads) {
  threads_ = (threads + lanes_per_warp - 1) / lanes_per_warp * lanes_per_warp;
  clock_.assign(threads_, 1);
  near_.assign(size_t{threads_} * lanes_per_warp, 0);
  warp_phase_.assign(threads_ / lanes_per_warp, 0);
  knows_near_.assign(threads_ / lanes_per_warp, false);
  far_.resize(threads_);
  fenced_.resize(threads_);
  phase_ = 1;
}

void Clocks::begin_block() {
  begin_phase();
  places_.clear();
  gates_.clear();
  seen_ = seen_by_all_ = {};
}

void Clocks::begin_warp(uint32_t warp) {
  if (warp_phase_[warp] == phase_)
    return;
  warp_phase_[warp] = phase_;
  std::fill_n(clock_.begin() + warp * lanes_per_warp, lanes_per_warp, 1);
  if (knows_near_[warp])
    std::fill_n(near_.begin() + warp * lanes_per_warp * lanes_per_warp, lanes_per_warp * lanes_per_warp, 0);
  knows_near_[warp] = false;
}

uint32_t &Clocks::clock_of(uint32_t thread) {
  begin_warp(thread / lanes_per_warp);
  return clock_[thread];
}

void Clocks::begin(Knowledge &knowledge) {
  if (knowledge.phase == phase_)
    return;
  knowledge.phase = phase_;
  knowledge.time.assign(threads_ + most_gates, 0);
}

void Clocks::join(Knowledge &to, const Knowledge &from) {
  if (from.phase != phase_)
    return;
  begin(to);
  for (size_t t = 0; t < to.time.size(); ++t)
    to.time[t] = std::max(to.time[t], from.time[t]);
}

void Clocks::publish(uint32_t thread, Knowledge &to) {
  uint32_t &clock = clock_of(thread), first = thread / lanes_per_warp * lanes_per_warp;
  begin(to);
  join(to, far_[thread]);
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    to.time[first + l] = std::max(to.time[first + l], near(thread, l));
  to.time[thread] = std::max(to.time[thread], clock);
  ++clock;
}

void Clocks::learn(uint32_t thread, const Knowledge &from) {
  if (from.phase != phase_)
    return;
  uint32_t warp = thread / lanes_per_warp;
  begin_warp(warp);
  knows_near_[warp] = true;
  join(far_[thread], from);
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    near(thread, l) = std::max(near(thread, l), from.time[warp * lanes_per_warp + l]);
}

void Clocks::join_lanes(uint32_t warp, uint32_t lanes) {
  begin_warp(warp);
  knows_near_[warp] = true;
  uint32_t first = warp * lanes_per_warp, *known = near_.data() + size_t{first} * lanes_per_warp;
  uint32_t all[lanes_per_warp] = {};
  bool far = false;
  for (uint32_t l = 0; l < lanes_per_warp; ++l) {
    if (!(lanes >> l & 1))
      continue;
    for (uint32_t o = 0; o < lanes_per_warp; ++o)
      all[o] = std::max(all[o], known[l * lanes_per_warp + o]);
    all[l] = std::max(all[l], clock_[first + l]++);
    far |= far_[first + l].phase == phase_;
  }
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    if (lanes >> l & 1)
      std::copy_n(all, lanes_per_warp, known + l * lanes_per_warp);
  if (!far)
    return;
  Knowledge together;
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    if (lanes >> l & 1)
      join(together, far_[first + l]);
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    if (lanes >> l & 1)
      learn(first + l, together);
}

void Clocks::arrive(uint32_t id, uint32_t warp, uint32_t lanes) {
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    if (lanes >> l & 1)
      publish(warp * lanes_per_warp + l, barriers_[id]);
}

void Clocks::leave(uint32_t id, uint32_t warp, uint32_t lanes) {
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    if (lanes >> l & 1)
      learn(warp * lanes_per_warp + l, barriers_[id]);
}

void Clocks::fence(uint32_t thread) {
  fenced_[thread].phase = 0;
  publish(thread, fenced_[thread]);
}

std::vector<uint32_t> Clocks::tell(uint32_t thread) {
  Knowledge told;
  publish(thread, told);
  told.time.resize(threads_);
  return std::move(told.time);
}

Clocks::Knowledge &Clocks::at(uint64_t address) {
  uint64_t word = address / 4;
  if (auto found = places_.find(word); found != places_.end())
    return found->second;
  return places_.size() < most_places ? places_[word] : elsewhere_;
}

void Clocks::read_strongly(uint32_t thread, uint64_t address) {
  if (auto found = places_.find(address / 4); found != places_.end())
    learn(thread, found->second);
  learn(thread, elsewhere_);
}

void Clocks::write_strongly(uint32_t thread, uint64_t address, bool releases) {
  if (releases) {
    publish(thread, at(address));
  } else if (fenced_[thread].phase == phase_) {
    join(at(address), fenced_[thread]);
  }
}

Clocks::Gate &Clocks::gate(uint64_t mbarrier) {
  auto [found, is_new] = gates_.try_emplace(mbarrier);
  if (is_new)
    found->second.place = std::min(static_cast<uint32_t>(gates_.size()), most_gates) - 1;
  return found->second;
}

// The number of its phases goes on: those of the mbarrier that was there before stay apart.
void Clocks::begin_gate(uint64_t mbarrier) {
  Gate &at = gate(mbarrier);
  at.arrived.phase = at.told.phase = 0;
}

void Clocks::arrive_at_gate(uint32_t thread, uint64_t mbarrier, bool releases) {
  if (releases)
    publish(thread, gate(mbarrier).arrived);
  else
    join(gate(mbarrier).arrived, fenced_[thread]);
}

void Clocks::complete_phase(uint64_t mbarrier) {
  Gate &at = gate(mbarrier);
  ++at.complete;
  join(at.told, at.arrived);
}

void Clocks::see_phase(uint32_t thread, uint64_t mbarrier) {
  Gate &at = gate(mbarrier);
  learn(thread, at.told);
  begin(far_[thread]);
  uint32_t &known = far_[thread].time[threads_ + at.place];
  known = std::max(known, at.complete);
  seen_[at.place] = std::max(seen_[at.place], at.complete);
}

Clocks::GatePhase Clocks::current_phase(uint64_t mbarrier) {
  const Gate &at = gate(mbarrier);
  return {at.place, at.complete + 1};
}

} // namespace emulator
