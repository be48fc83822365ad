// Finds accesses to global memory that nothing orders, of threads of one launch: who wrote each piece of it
// last, and one of those who have read it since; two where threads of one block read it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/check/between/block_order.hpp"
#include "exec/warp/warp.hpp"

namespace emulator {

// Whether the instruction orders threads of a block in a way that is not followed.
inline bool orders_threads(std::string_view name) { return name == "barrier.cluster"; }
std::string why_not_followed(const std::string &instruction);
// Why the launch is not looked at; empty where it is, or where it has nothing that could be a race.
std::string why_no_global_races(const Launch &launch);
// Whether it is looked at: its blocks then run in order, on one thread of the host.
bool looks_for_global_races(const Launch &launch);

class GlobalRaces {
public:
  explicit GlobalRaces(const Launch &launch);

  // What one block has besides.
  struct OfBlock {
    BlockOrder order;
    std::vector<uint32_t> noted; // of each warp and site: its newest access
  };
  void prepare(OfBlock &block, Clocks &clocks);
  void access(Warp &warp, const Instruction *i, uint32_t lanes, const uint64_t *addresses, uint32_t bytes,
              AccessKind kind, Clocks &clocks, OfBlock &block);

private:
  // One of a warp, and all like it: of the same instruction, with nothing between them that orders.
  struct Access {
    uint32_t block, phase, clock;
    uint32_t instruction : 30, strong : 1, of_block : 1; // of_block: strong among the block alone
    uint32_t warp;
  };
  // Of each piece of a page the number of an access times 32, and lane: 0 is none. Made when there is one.
  class Column {
  public:
    uint32_t at(size_t piece) const { return ids_ ? ids_[piece] : 0; }
    void set(size_t piece, uint32_t id, size_t pieces) {
      if (!ids_ && id == 0)
        return;
      if (!ids_)
        ids_.reset(new uint32_t[pieces]());
      ids_[piece] = id;
    }

  private:
    std::unique_ptr<uint32_t[]> ids_;
  };
  struct Page {
    Column writes, reads;
    Column others; // reads by another thread of the block that `reads` has
  };
  size_t pieces() const { return (size_t{1} << page_bits) >> piece_bits_; } // of a page

  Access &at(uint32_t id) {
    return accesses_[id / lanes_per_warp >> chunk_bits]
                    [id / lanes_per_warp & ((uint32_t{1} << chunk_bits) - 1)];
  }
  uint32_t note_access(const Warp &warp, const Instruction *i, const Access &now, OfBlock &block);
  Page &page(uint64_t number);
  static uint32_t thread_of(uint32_t id, const Access &access) {
    return access.warp * lanes_per_warp + id % lanes_per_warp;
  }
  // What there is of the block that runs.
  struct Now {
    const Clocks &clocks;
    const BlockOrder &order;
  };
  // Whether what has been is ordered before `now`.
  bool is_ordered(uint32_t before, const Access &now, uint32_t thread, const Now &block);
  bool is_race(uint32_t before, const Access &now, uint32_t thread, const Now &block);
  void note_read(Page &page, size_t piece, uint32_t own, const Access &now, uint32_t thread,
                 const Now &block);
  bool stores_the_same(const Warp &warp, const Instruction *i, uint32_t lane, const uint64_t *addresses,
                       uint32_t done, uint32_t before, uint32_t id, uint64_t place);
  // Whether an access of a lane is told, after those of the lanes `done`.
  bool look(Warp &warp, const Instruction *i, uint32_t lane, const uint64_t *addresses, uint32_t done,
            uint32_t bytes, AccessKind kind, uint32_t id, const Now &block);
  void report(Warp &warp, FindingKind kind, uint32_t before, const Access &now, bool same_value,
              FoundExample example);
  bool follows_block_ = true; // and what orders its threads
  Known &place(uint64_t address);

  static constexpr uint32_t chunk_bits = 14, page_bits = 12;
  static constexpr size_t most_places = 1 << 16, cached_pages = 256;
  static constexpr uint32_t most_accesses = (1u << 27) - 1;
  const Launch &launch_;
  uint32_t piece_bits_ = 2;
  std::vector<bool> is_guess_; // of each instruction: a weak load that counts as strong
  uint32_t count_ = 1;
  std::vector<std::unique_ptr<Access[]>> accesses_;
  std::unordered_map<uint64_t, Page> pages_;
  struct CachedPage {
    uint64_t number = UINT64_MAX;
    Page *page = nullptr;
  };
  CachedPage cache_[cached_pages];
  std::unordered_map<uint64_t, Known> places_; // words that strong writes went to
  Known elsewhere_;                            // and all those beyond the most that are kept apart
};

} // namespace emulator
