#include "allocations.hpp"

#include "exec/interface/global_shadow.hpp"

namespace emulator::driver {
namespace {

constexpr size_t most_freed_remembered = 1024;
// Of stretches that do not overlap, by base: the one that holds `address`; {0, 0}: none.
Stretch holder(const std::map<uint64_t, uint64_t> &stretches, uint64_t address) {
  auto above = stretches.upper_bound(address);
  if (above == stretches.begin())
    return {};
  auto [base, bytes] = *std::prev(above);
  return address - base < bytes ? Stretch{base, bytes} : Stretch{};
}

} // namespace

Allocations &allocations() {
  static Allocations *only = new Allocations;
  return *only;
}

void Allocations::insert(std::shared_ptr<Allocation> allocation) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  if (allocation->identifier == 0)
    allocation->identifier = driver().next_identifier++;
  by_base_[allocation->base] = std::move(allocation);
}

void Allocations::erase(uint64_t base) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  auto found = by_base_.find(base);
  if (found == by_base_.end())
    return;
  remember_freed(base, found->second->bytes);
  global_shadow().end(base, found->second->bytes);
  by_base_.erase(found);
}

void Allocations::remember_freed(uint64_t base, uint64_t bytes) {
  freed_.emplace_back(base, bytes);
  if (freed_.size() > most_freed_remembered)
    freed_.pop_front();
}

void Allocations::confine(Stretch stretch, const std::vector<Stretch> &pieces) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  std::map<uint64_t, uint64_t> wanted;
  for (const Stretch &piece : pieces)
    wanted[piece.base] = piece.bytes;
  for (auto known = pieces_.lower_bound(stretch.base);
       known != pieces_.end() && known->first - stretch.base < stretch.bytes; known = pieces_.erase(known))
    if (wanted.find(known->first) == wanted.end())
      remember_freed(known->first, known->second);
  pieces_.insert(wanted.begin(), wanted.end());
  if (!is_confined(stretch.base)) // else it is a part of what is confined
    confined_[stretch.base] = stretch.bytes;
}

bool Allocations::takes_away(Stretch stretch, const std::vector<Stretch> &pieces) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto known = pieces_.lower_bound(stretch.base);
  auto piece = pieces.begin();
  for (; known != pieces_.end() && known->first - stretch.base < stretch.bytes; ++known) {
    while (piece != pieces.end() && piece->base < known->first)
      ++piece;
    if (piece == pieces.end() || piece->base != known->first || piece->bytes < known->second)
      return true;
  }
  return !is_confined(stretch.base);
}

bool Allocations::is_confined(uint64_t address) const { return holder(confined_, address).bytes != 0; }

Stretch Allocations::for_kernels(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  if (is_confined(address))
    return holder(pieces_, address);
  auto above = by_base_.upper_bound(address);
  if (above == by_base_.begin() || address >= std::prev(above)->second->end())
    return {};
  return {std::prev(above)->second->base, std::prev(above)->second->bytes};
}

std::pair<uint64_t, uint64_t> Allocations::freed_at(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  for (auto freed = freed_.rbegin(); freed != freed_.rend(); ++freed)
    if (address - freed->first < freed->second)
      return *freed;
  return {0, 0};
}

std::shared_ptr<Allocation> Allocations::find(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto above = by_base_.upper_bound(address);
  if (above == by_base_.begin())
    return nullptr;
  const auto &candidate = std::prev(above)->second;
  return address < candidate->end() ? candidate : nullptr;
}

bool Allocations::covers(uint64_t base, uint64_t bytes) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  uint64_t end = base + bytes;
  for (auto above = by_base_.upper_bound(base); base < end; ++above) {
    if (above == by_base_.begin() || std::prev(above)->second->end() <= base ||
        std::prev(above)->second->base > base)
      return false;
    if (std::prev(above)->second->kept && !std::prev(above)->second->writable)
      return false; // not there yet, or not any more
    base = std::prev(above)->second->end();
    if (above == by_base_.end())
      break;
  }
  return base >= end;
}

bool Allocations::overlaps(uint64_t base, uint64_t bytes) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto above = by_base_.lower_bound(base);
  if (above != by_base_.end() && above->first < base + bytes)
    return true;
  return above != by_base_.begin() && std::prev(above)->second->end() > base;
}

std::pair<Stretch, Stretch> Allocations::neighbours(uint64_t address) const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  Stretch below, above;
  auto allocation = by_base_.upper_bound(address);
  for (auto before = allocation; before != by_base_.begin() && below.bytes == 0;)
    if (--before; !is_confined(before->first))
      below = {before->first, before->second->bytes};
  for (; allocation != by_base_.end() && above.bytes == 0; ++allocation)
    if (!is_confined(allocation->first))
      above = {allocation->first, allocation->second->bytes};
  auto piece = pieces_.upper_bound(address);
  if (piece != pieces_.end() && (above.bytes == 0 || piece->first < above.base))
    above = {piece->first, piece->second};
  if (piece != pieces_.begin() && std::prev(piece)->first >= below.base)
    below = {std::prev(piece)->first, std::prev(piece)->second};
  return {below, above};
}

std::vector<std::shared_ptr<Allocation>> Allocations::all() const {
  std::shared_lock<std::shared_mutex> guard(mutex_);
  std::vector<std::shared_ptr<Allocation>> result;
  for (const auto &item : by_base_)
    result.push_back(item.second);
  return result;
}

} // namespace emulator::driver
