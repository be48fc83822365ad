// What the threads of one block know of other blocks, and tell them: by strong operations that both sides
// make at a scope that holds both, after a fence of such a scope or with one that releases.
#pragma once

#include <unordered_map>
#include <vector>

#include "exec/check/between/known.hpp"
#include "exec/check/within/clocks.hpp"

namespace emulator {

class BlockOrder {
public:
  void prepare(uint32_t threads, Clocks &clocks);
  void start(uint64_t block);
  uint64_t block() const { return block_; }

  bool knows(uint64_t block, uint32_t phase, uint32_t clock, uint32_t of_thread, uint32_t thread) const {
    return all_.acquired.covers(block, phase, of_thread, clock) ||
           threads_[thread].acquired.covers(block, phase, of_thread, clock);
  }
  void fence(uint32_t thread, bool among_block);
  void read_strongly(uint32_t thread, const Known &place);
  void write_strongly(uint32_t thread, Known &place, bool releases);
  // Strong operations also hand on to threads of the block what the thread knew at its last fence, or knows
  // where they release: by any word, at any scope.
  void read_in_block(uint32_t thread, uint64_t address);
  void write_in_block(uint32_t thread, uint64_t address, bool releases);
  // What orders threads of the block hands on what each of them knows: among lanes, or all of it to all, also
  // where only some are ordered.
  void join_lanes(uint32_t warp, uint32_t lanes);
  void join_all();

private:
  struct Sets {
    Known acquired;
    Known fenced;   // of these, what it knew at its last fence
    Known released; // what its strong writes tell of
    bool empty() const { return acquired.empty() && released.empty(); }
    void join(const Sets &other);
  };
  Known told_by(uint32_t thread);
  Sets &changing(uint32_t thread);

  static constexpr size_t most_places = 4096;
  Clocks *clocks_ = nullptr;
  uint64_t block_ = 0;
  Sets all_;
  std::vector<Sets> threads_;                 // what only some threads of the block know
  std::vector<uint32_t> changed_;             // those that have any
  std::unordered_map<uint64_t, Sets> places_; // words that strong writes of the block went to
  Sets elsewhere_;                            // and all those beyond the most that are kept apart
};

} // namespace emulator
