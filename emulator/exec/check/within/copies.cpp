#include "exec/check/within/copies.hpp"

#include <algorithm>

namespace emulator {

void Copies::prepare(uint32_t threads, Clocks &clocks) {
  clocks_ = &clocks;
  series_.resize((threads + lanes_per_warp - 1) / lanes_per_warp * lanes_per_warp);
  start();
}

void Copies::start() {
  copies_.assign(1, Copy{}); // 0 is none
  std::fill(series_.begin(), series_.end(), std::array<Series, 2>{});
}

uint32_t Copies::issue(uint32_t thread, uint32_t instruction, CopyEnd end, uint64_t mbarrier) {
  Copy copy{thread, instruction, end, 0, {}};
  if (end == CopyEnd::gate)
    copy.phase = clocks_->current_phase(mbarrier);
  else
    copy.number = ++of(thread, end).issued;
  copies_.push_back(copy);
  return static_cast<uint32_t>(copies_.size() - 1);
}

void Copies::add(Series &series, const Ended &ended) {
  // A barrier of all threads has told everybody of waits before it.
  auto is_old = [&](const Ended &one) { return !one.with_phase && one.at.phase != clocks_->phase(); };
  for (const Ended &one : series.ended)
    if (is_old(one))
      series.known_to_all = std::max(series.known_to_all, one.count);
  auto passed = std::remove_if(series.ended.begin(), series.ended.end(),
                               [&](const Ended &one) { return one.count <= series.known_to_all; });
  series.ended.erase(passed, series.ended.end());
  if (series.ended.size() == most_kept) { // then the oldest counts as known to all
    series.known_to_all = std::max(series.known_to_all, series.ended.front().count);
    series.ended.erase(series.ended.begin());
  }
  series.ended.push_back(ended);
}

void Copies::done(uint32_t thread, CopyEnd end, uint32_t count) {
  Series &series = of(thread, end);
  auto is_known = [=](const Ended &one) { return !one.with_phase && one.count >= count; };
  if (count <= series.known_to_all || std::any_of(series.ended.begin(), series.ended.end(), is_known))
    return;
  Ended now;
  now.count = count;
  now.at = {clocks_->phase(), clocks_->of_warp(thread / lanes_per_warp)[thread % lanes_per_warp], thread};
  add(series, now);
}

void Copies::wait(uint32_t thread, CopyEnd end, uint64_t groups) {
  std::vector<uint32_t> &open = of(thread, end).groups;
  if (open.size() <= groups)
    return;
  auto stays = open.end() - static_cast<std::ptrdiff_t>(groups);
  uint32_t count = *(stays - 1);
  open.erase(open.begin(), stays);
  done(thread, end, count);
}

void Copies::arrive_after(uint32_t thread, uint64_t mbarrier) {
  Series &series = of(thread, CopyEnd::group);
  Ended then;
  then.count = series.issued;
  then.with_phase = true;
  then.phase = clocks_->current_phase(mbarrier);
  add(series, then);
}

bool Copies::knows_end(uint32_t thread, uint32_t copy) const {
  const Copy &one = copies_[copy];
  if (one.end == CopyEnd::gate)
    return clocks_->has_seen(thread, one.phase);
  const Series &series = series_[one.thread][static_cast<size_t>(one.end)];
  if (one.number <= series.known_to_all)
    return true;
  for (const Ended &ended : series.ended) {
    if (ended.count < one.number)
      continue;
    if (ended.with_phase ? clocks_->has_seen(thread, ended.phase)
                         : ended.at.phase != clocks_->phase() || ended.at.thread == thread ||
                               clocks_->knows(thread, ended.at))
      return true;
  }
  return false;
}

bool Copies::is_known_to_all(uint32_t copy) const {
  const Copy &one = copies_[copy];
  if (one.end == CopyEnd::gate)
    return false;
  const Series &series = series_[one.thread][static_cast<size_t>(one.end)];
  return one.number <= series.known_to_all ||
         std::any_of(series.ended.begin(), series.ended.end(), [&](const Ended &ended) {
           return ended.count >= one.number && !ended.with_phase && ended.at.phase != clocks_->phase();
         });
}

} // namespace emulator
