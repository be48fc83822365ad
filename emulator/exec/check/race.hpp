// Finds accesses to a block's shared memory that no barrier orders: who wrote and who read each piece of it
// last, beside what happens before what (clocks.hpp).
#pragma once

#include <vector>

#include "exec/check/clocks.hpp"
#include "exec/check/findings.hpp"
#include "exec/warp/warp.hpp"

namespace emulator {

class SharedRaces {
public:
  void prepare(const Launch &launch, uint64_t base, uint64_t bytes, Clocks &clocks);
  void start(uint64_t block) { block_ = block; }

  // Of each of `lanes`, an access of `bytes` at its address. Some may be elsewhere.
  void access(Warp &warp, const Instruction *i, uint32_t lanes, const uint64_t *addresses, uint32_t bytes,
              AccessKind kind);

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

  bool is_unordered(const Access &before, const Access &now) const {
    return before.at.phase == now.at.phase && before.at.thread != now.at.thread &&
           !(before.strong && now.strong) && !clocks_->knows(now.at.thread, before.at);
  }
  void read(Piece &piece, const Access &now);
  void report(Warp &warp, FindingKind kind, const Access &before, const Access &now, uint64_t offset,
              uint32_t bytes, bool same_value);
  bool wrote_the_same(const Warp &warp, const Instruction *i, uint32_t lane, uint64_t address, uint64_t piece,
                      const Piece &before) const;

  Clocks *clocks_ = nullptr;
  uint64_t base_ = 0, bytes_ = 0, block_ = 0;
  uint32_t piece_bits_ = 2; // pieces have 1, 2, 4, 8 or 16 bytes: no access is smaller
  std::vector<Piece> pieces_;
  uint32_t execution_ = 0;           // counts accesses of warps
  std::vector<uint32_t> written_in_; // of each piece, the execution of its last weak write
};

} // namespace emulator
