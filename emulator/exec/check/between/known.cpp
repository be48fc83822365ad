#include "exec/check/between/known.hpp"

#include <algorithm>

namespace emulator {

namespace {

// Whether `one` knows all that the other does.
bool reaches(const Until &one, const Until &other) {
  return one.phase > other.phase ||
         (one.phase == other.phase && (!other.clocks || one.clocks == other.clocks));
}

Until later(const Until &one, const Until &other) {
  if (reaches(one, other))
    return one;
  if (reaches(other, one))
    return other;
  auto clocks = std::make_shared<std::vector<uint32_t>>(*one.clocks);
  for (size_t t = 0; t < clocks->size(); ++t)
    (*clocks)[t] = std::max((*clocks)[t], (*other.clocks)[t]);
  return {one.phase, std::move(clocks)};
}

} // namespace

void Known::add(uint64_t block, const Until &until) {
  uint64_t at = block / blocks_per_chunk;
  if (at >= chunks_.size())
    chunks_.resize(at + 1);
  auto chunk = chunks_[at] ? std::make_shared<Chunk>(*chunks_[at]) : std::make_shared<Chunk>();
  Until &here = (*chunk)[block % blocks_per_chunk];
  here = later(here, until);
  chunks_[at] = std::move(chunk);
}

void Known::join(const Known &other) {
  if (other.chunks_.size() > chunks_.size())
    chunks_.resize(other.chunks_.size());
  for (size_t c = 0; c < other.chunks_.size(); ++c) {
    auto &mine = chunks_[c];
    const auto &theirs = other.chunks_[c];
    if (!theirs || mine == theirs)
      continue;
    if (!mine) {
      mine = theirs;
      continue;
    }
    bool all_mine = true, all_theirs = true;
    for (size_t k = 0; k < blocks_per_chunk; ++k) {
      all_mine &= reaches((*mine)[k], (*theirs)[k]);
      all_theirs &= reaches((*theirs)[k], (*mine)[k]);
    }
    if (all_mine)
      continue;
    if (all_theirs) {
      mine = theirs;
      continue;
    }
    auto both = std::make_shared<Chunk>(*mine);
    for (size_t k = 0; k < blocks_per_chunk; ++k)
      (*both)[k] = later((*both)[k], (*theirs)[k]);
    mine = std::move(both);
  }
}

} // namespace emulator
