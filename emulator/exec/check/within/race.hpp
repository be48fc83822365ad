// Finds accesses to a block's shared memory that no barrier orders: who wrote and who read each piece of it
// last, beside what happens before what (clocks.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "exec/check/findings.hpp"
#include "exec/check/within/copies.hpp"
#include "exec/warp/warp.hpp"

namespace emulator {

class SharedRaces {
public:
  void prepare(const Launch &launch, uint64_t base, uint64_t bytes, Clocks &clocks);
  void start(uint64_t block) {
    block_ = block;
    first_phase_ = clocks_->phase();
    copies.start();
    copied_.assign(copied_.size(), {});
    told_ = 0;
    open_copies_.clear();
    looks_at_each_ = false;
  }

  // Whether that is all there is to a weak access of a warp: no other of this phase is near, or it reads as
  // all of them do. Where it is not, access() looks at it.
  bool is_alone(Warp &warp, const Instruction *i, const Reach &reach, uint64_t lowest, uint32_t bytes,
                AccessKind kind);
  // Before anything changes what happens before what inside a phase: reads that were only noted are looked
  // at.
  void settle() {
    if (!noted_.empty())
      look_at_noted();
  }

  // Of each of `lanes`, an access of `bytes` at its address. Some may be elsewhere.
  void access(Warp &warp, const Instruction *i, uint32_t lanes, const uint64_t *addresses, uint32_t bytes,
              AccessKind kind, bool strong);
  // A copy that `lane` issues reads or writes these bytes. More than one range may be of one copy.
  void copy(Warp &warp, uint32_t lane, uint64_t address, uint64_t bytes, bool writes, uint32_t copy);

  // From now on access() looks at all that the block does, as mbarriers ask for.
  void look_at_each() {
    settle();
    looks_at_each_ = true;
  }

  // Of the mbarrier at an address no arrival is known any more.
  void forget_arrivals(uint64_t mbarrier);

  Copies copies;

private:
  struct Access {
    Moment at;
    uint32_t instruction : 31;
    uint32_t strong : 1;
    Access() : instruction(0), strong(0) {}
  };
  // The last weak write, the last strong one since then, and two of the reads since the last of both, by
  // different threads and, where there are, warps.
  struct alignas(64) Piece { // a line of the host's cache
    Access write, strong_write, read[2];
  };
  // The last copy that writes a piece and the last one that reads it, until they are known to be done.
  struct Copied {
    uint32_t write = 0, read = 0;
  };

  bool is_unordered(const Access &before, const Access &now) const {
    return before.at.phase == now.at.phase && before.at.thread != now.at.thread &&
           !(before.strong && now.strong) && !clocks_->knows(now.at.thread, before.at);
  }
  void read(Piece &piece, const Access &now);
  // What races with an access, or the issue of a copy, `now`; tell(kind, copy).
  template <typename Tell> void meet_copies(uint64_t piece, const Access &now, AccessKind kind, Tell tell);
  // The key of an access that a finding names.
  struct Named {
    uint32_t instruction, thread;
  };
  static Named named(const Access &access) { return {access.instruction, access.at.thread}; }
  Named named_copy(uint32_t copy) const { return {copies.instruction_of(copy), copies.thread_of(copy)}; }
  void report(Warp &warp, FindingKind kind, const Named &before, const Named &now, bool same_value,
              bool is_copy, FoundExample example);
  // Who wrote a piece last in this block, where that is known.
  void note_writer(FoundExample &to, uint64_t piece) const;
  bool wrote_the_same(const Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, uint64_t piece,
                      const Piece &before) const;

  void look(Warp &warp, const Instruction *i, uint32_t lanes, const uint64_t *addresses, uint32_t bytes,
            AccessKind kind, bool strong);

  // Stretches of shared memory that something was done with in this phase.
  static constexpr uint32_t stretch_bits = 6;
  class Stretches {
  public:
    void prepare(uint64_t bytes) { bits_.assign((bytes >> (stretch_bits + 6)) + 1, 0); }
    void clear() { std::fill(bits_.begin(), bits_.end(), 0); }
    bool any(uint64_t offset, uint64_t bytes) const {
      uint64_t found = 0;
      for_each_word(offset, bytes, [&](size_t word, uint64_t bits) { found |= bits_[word] & bits; });
      return found != 0;
    }
    void add(uint64_t offset, uint64_t bytes) {
      for_each_word(offset, bytes, [&](size_t word, uint64_t bits) { bits_[word] |= bits; });
    }

  private:
    template <typename Do> static void for_each_word(uint64_t offset, uint64_t bytes, Do what) {
      const uint64_t first = offset >> stretch_bits, last = (offset + bytes - 1) >> stretch_bits;
      for (uint64_t word = first / 64; word <= last / 64; ++word)
        what(word, (word == first / 64 ? ~uint64_t{0} << first % 64 : ~uint64_t{0}) &
                       (word == last / 64 ? ~uint64_t{0} >> (63 - last % 64) : ~uint64_t{0}));
    }
    std::vector<uint64_t> bits_;
  };
  // A read of a warp that is not looked at before something else comes near it in its phase: most never are.
  struct NotedRead {
    Warp *warp;
    const Instruction *instruction;
    uint64_t lowest;
    uint32_t bytes, active;
    Pattern pattern;
    std::array<uint32_t, lanes_per_warp / lanes_of_piece> pieces; // offsets of regular lanes
    uint32_t offsets;                                             // of others, in noted_offsets_
  };
  void begin_phase();
  void open(uint32_t copy, uint64_t offset, uint64_t bytes);
  void note_read(Warp &warp, const Instruction *i, const Reach &reach, uint64_t lowest, uint32_t bytes);
  void look_at_noted();
  // A store of lanes side by side, where nothing else was done in this phase.
  void write(const Warp &warp, const Instruction *i, const Reach &reach, uint64_t offset, uint32_t bytes);

  static constexpr size_t most_noted = 1024;
  std::vector<NotedRead> noted_;
  std::vector<std::array<uint32_t, lanes_per_warp>> noted_offsets_;
  Stretches was_read_, was_written_;
  // Copies whose end was not known to all threads when the phase began.
  struct OpenCopy {
    uint32_t copy;
    uint64_t offset, bytes;
  };
  static constexpr size_t most_open = 1 << 14;
  std::vector<OpenCopy> open_copies_;
  Stretches being_copied_; // by them
  bool looks_at_each_ = false;
  uint32_t stretches_phase_ = 0; // that these and `noted_` are of

  Clocks *clocks_ = nullptr;
  uint64_t base_ = 0, bytes_ = 0, block_ = 0;
  uint32_t first_phase_ = 0; // of the block
  uint32_t piece_bits_ = 2;  // pieces have 1, 2, 4, 8 or 16 bytes: no access is smaller
  std::vector<Piece> pieces_;
  std::vector<Copied> copied_;       // beside them; empty where the program has no copies
  uint32_t told_ = 0;                // the last copy that was told of
  uint32_t execution_ = 0;           // counts accesses of warps
  std::vector<uint32_t> written_in_; // of each piece, the execution of its last weak write
};

} // namespace emulator
