#include "exec/check/race.hpp"

#include <algorithm>
#include <cstring>

#include "exec/check/stored.hpp"

namespace emulator {

void SharedRaces::prepare(const Launch &launch, uint64_t base, uint64_t bytes, Clocks &clocks) {
  clocks_ = &clocks;
  base_ = base;
  bytes_ = bytes;
  piece_bits_ = smallest_access_bits(*launch.program, ptx::Space::shared);
  pieces_.assign((bytes + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_, Piece{});
  written_in_.assign(pieces_.size(), 0);
}

inline void SharedRaces::read(Piece &piece, const Access &now) {
  Access &one = piece.read[0], &other = piece.read[1];
  if (one.at.phase != now.at.phase) {
    one = now;
    other.at.phase = 0;
  } else if (now.strong && one.at.thread == now.at.thread) {
    // The weak one says more: it is a race with strong writes, too.
  } else if (one.at.thread == now.at.thread || clocks_->knows(now.at.thread, one.at)) {
    one = now; // what comes after this read comes after that one
  } else if (other.at.phase != now.at.phase || other.at.thread == now.at.thread ||
             one.at.thread / lanes_per_warp == other.at.thread / lanes_per_warp ||
             clocks_->knows(now.at.thread, other.at)) {
    other = now;
  }
}

bool SharedRaces::wrote_the_same(const Warp &w, const Instruction *i, uint32_t lane, uint64_t address,
                                 uint64_t piece, const Piece &before) const {
  if (i->lane_bytes == 0 || before.strong_write.at.phase == before.write.at.phase)
    return false;
  uint32_t bytes = uint32_t{1} << piece_bits_,
           skipped = static_cast<uint32_t>((piece << piece_bits_) - (address - base_));
  uint8_t now[16], old[16];
  stored(w, i, lane, skipped, bytes, now);
  if (written_in_[piece] == execution_) // not in memory yet
    stored(w, i, before.write.at.thread % lanes_per_warp, skipped, bytes, old);
  else
    std::memcpy(old, reinterpret_cast<const void *>(base_ + (piece << piece_bits_)), bytes);
  return std::memcmp(now, old, bytes) == 0;
}

void SharedRaces::report(Warp &w, FindingKind kind, const Access &before, const Access &now, uint64_t offset,
                         uint32_t bytes, bool same_value) {
  note(w.worker->found,
       {Check::race, kind, before.instruction, now.instruction, same_value,
        before.at.thread / lanes_per_warp == now.at.thread / lanes_per_warp},
       {block_, before.at.thread, now.at.thread, "shared", offset, bytes, 1});
}

void SharedRaces::access(Warp &w, const Instruction *i, uint32_t lanes, const uint64_t *addresses,
                         uint32_t bytes, AccessKind kind) {
  ++execution_;
  Access now;
  now.instruction = static_cast<uint32_t>(i - w.program->code.data());
  now.strong = kind == AccessKind::atomic || i->order != 0;
  const uint32_t *clock = clocks_->of_warp(w.index);
  const uint32_t phase = now.at.phase = clocks_->phase();
  const bool reads_one_piece = kind == AccessKind::load && bytes <= uint32_t{1} << piece_bits_;
  uint64_t last = UINT64_MAX; // where lanes before this one read, whom nothing has written in this phase
  uint32_t readers = 0;
  for (; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t offset = addresses[lane] - base_;
    if (offset >= bytes_)
      continue;
    // Of the lanes of a warp no more than two are kept.
    if (offset == last && readers >= 2)
      continue;
    now.at.thread = w.index * lanes_per_warp + lane;
    now.at.clock = clock[lane];
    if (reads_one_piece) {
      Piece &piece = pieces_[offset >> piece_bits_];
      if (piece.write.at.phase != phase && piece.strong_write.at.phase != phase) {
        readers = offset == last ? readers + 1 : 1;
        last = offset;
        read(piece, now);
        continue;
      }
    }
    uint64_t end = (std::min(offset + bytes, bytes_) + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_;
    bool told = false; // once for each access of a thread
    for (uint64_t p = offset >> piece_bits_; p < end; ++p) {
      Piece &piece = pieces_[p];
      auto tell = [&](FindingKind what, const Access &before, bool same) {
        if (!told)
          report(w, what, before, now, offset, bytes, same);
        told = true;
      };
      if (kind == AccessKind::load) {
        for (const Access *earlier : {&piece.write, &piece.strong_write})
          if (is_unordered(*earlier, now))
            tell(FindingKind::read_after_write, *earlier, false);
        read(piece, now);
        continue;
      }
      if (is_unordered(piece.write, now))
        tell(FindingKind::write_after_write, piece.write,
             wrote_the_same(w, i, lane, addresses[lane], p, piece));
      if (is_unordered(piece.strong_write, now))
        tell(FindingKind::write_after_write, piece.strong_write, false);
      for (const Access &earlier : piece.read)
        if (is_unordered(earlier, now))
          tell(FindingKind::write_after_read, earlier, false);
      piece.read[0].at.phase = piece.read[1].at.phase = 0;
      if (now.strong) {
        piece.strong_write = now;
        continue;
      }
      piece.strong_write.at.phase = 0;
      piece.write = now;
      written_in_[p] = execution_;
    }
  }
}

} // namespace emulator
