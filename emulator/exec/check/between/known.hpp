// Up to where a thread is ordered after each of the blocks of its launch: what strong operations tell of
// them.
//
// Copies share what they have in common, so that a chain through all blocks stays cheap.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace emulator {

// All of a block that lies in earlier phases, and in this one what each thread did up to that clock.
struct Until {
  uint32_t phase = 0; // 0: nothing
  std::shared_ptr<const std::vector<uint32_t>> clocks;
};

class Known {
public:
  bool empty() const { return chunks_.empty(); }
  void clear() { chunks_.clear(); }
  void add(uint64_t block, const Until &until);
  void join(const Known &other);
  bool covers(uint64_t block, uint32_t phase, uint32_t thread, uint32_t clock) const {
    uint64_t chunk = block / blocks_per_chunk;
    if (chunk >= chunks_.size() || !chunks_[chunk])
      return false;
    const Until &until = (*chunks_[chunk])[block % blocks_per_chunk];
    return phase < until.phase || (phase == until.phase && until.clocks && (*until.clocks)[thread] >= clock);
  }

private:
  static constexpr uint64_t blocks_per_chunk = 64;
  using Chunk = std::array<Until, blocks_per_chunk>;
  std::vector<std::shared_ptr<const Chunk>> chunks_;
};

} // namespace emulator
