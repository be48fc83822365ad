#include "exec/check/within/race.hpp"

#include <algorithm>
#include <cstring>

#include "exec/check/stored.hpp"

namespace emulator {

void SharedRaces::prepare(const Launch &launch, uint64_t base, uint64_t bytes, Clocks &clocks) {
  clocks_ = &clocks;
  base_ = base;
  bytes_ = bytes;
  piece_bits_ = smallest_access_bits(*launch.program, ptx::Space::shared);
  if (launch.program->has_asynchronous) {
    piece_bits_ = std::min(piece_bits_, 2u); // cp.async of 4 bytes
    copied_.resize((bytes + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_);
    copies.prepare(launch.threads_per_block, clocks);
  }
  pieces_.assign((bytes + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_, Piece{});
  written_in_.assign(pieces_.size(), 0);
  was_read_.prepare(bytes);
  was_written_.prepare(bytes);
  being_copied_.prepare(bytes);
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

void SharedRaces::report(Warp &w, FindingKind kind, const Named &before, const Named &now, bool same_value,
                         bool is_copy, FoundExample example) {
  example.block = block_;
  example.first_thread = before.thread;
  example.second_thread = now.thread;
  example.space = "shared";
  example.count = 1;
  const bool one_warp = before.thread / lanes_per_warp == now.thread / lanes_per_warp;
  note(w.worker->found,
       {Check::race, kind, before.instruction, now.instruction, same_value, one_warp && !is_copy}, example);
}

void SharedRaces::note_writer(FoundExample &to, uint64_t p) const {
  const Piece &piece = pieces_[p];
  const Access &last = piece.strong_write.at.phase >= piece.write.at.phase ? piece.strong_write : piece.write;
  Named writer = named(last);
  if (!copied_.empty() && copied_[p].write != 0)
    writer = named_copy(copied_[p].write);
  else if (last.at.phase < first_phase_)
    return;
  to.writer_instruction = writer.instruction;
  to.writer_block = block_;
  to.writer_thread = writer.thread;
}

template <typename Tell>
void SharedRaces::meet_copies(uint64_t piece, const Access &now, AccessKind kind, Tell tell) {
  Copied &at = copied_[piece];
  if (at.write != 0 && !copies.knows_end(now.at.thread, at.write))
    tell(kind == AccessKind::load ? FindingKind::read_after_write : FindingKind::write_after_write, at.write);
  if (kind == AccessKind::load)
    return;
  if (at.read != 0 && !copies.knows_end(now.at.thread, at.read))
    tell(FindingKind::write_after_read, at.read);
  at = {};
}

void SharedRaces::copy(Warp &w, uint32_t lane, uint64_t address, uint64_t bytes, bool writes, uint32_t copy) {
  const uint64_t offset = address - base_;
  if (offset >= bytes_ || bytes == 0)
    return;
  open(copy, offset, std::min(bytes, bytes_ - offset));
  Access now;
  now.at = {clocks_->phase(), clocks_->of_warp(w.index)[lane], w.index * lanes_per_warp + lane};
  now.instruction = copies.instruction_of(copy);
  auto tell = [&](FindingKind kind, const Named &before, uint64_t p) {
    if (told_ == copy)
      return;
    told_ = copy;
    FoundExample example;
    example.offset = offset;
    example.bytes = static_cast<uint32_t>(bytes);
    if (kind == FindingKind::write_after_read)
      note_writer(example, p);
    report(w, kind, before, named(now), false, true, example);
  };
  const AccessKind kind = writes ? AccessKind::store : AccessKind::load;
  uint64_t end = (std::min(offset + bytes, bytes_) + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_;
  for (uint64_t p = offset >> piece_bits_; p < end; ++p) {
    Piece &piece = pieces_[p];
    for (const Access *earlier : {&piece.write, &piece.strong_write})
      if (is_unordered(*earlier, now))
        tell(writes ? FindingKind::write_after_write : FindingKind::read_after_write, named(*earlier), p);
    if (writes)
      for (const Access &earlier : piece.read)
        if (is_unordered(earlier, now))
          tell(FindingKind::write_after_read, named(earlier), p);
    meet_copies(p, now, kind,
                [&](FindingKind what, uint32_t earlier) { tell(what, named_copy(earlier), p); });
    if (!writes) {
      copied_[p].read = copy;
      continue;
    }
    piece = {};
    copied_[p].write = copy;
  }
}

void SharedRaces::forget_arrivals(uint64_t mbarrier) {
  const uint64_t offset = mbarrier - base_;
  for (uint64_t p = offset >> piece_bits_; offset < bytes_ && p <= (offset + 7) >> piece_bits_; ++p)
    pieces_[p].strong_write.at.phase = 0;
}

void SharedRaces::begin_phase() {
  if (stretches_phase_ == clocks_->phase())
    return;
  stretches_phase_ = clocks_->phase();
  noted_.clear();
  noted_offsets_.clear();
  was_read_.clear();
  was_written_.clear();
  if (open_copies_.empty())
    return;
  auto ended = std::remove_if(open_copies_.begin(), open_copies_.end(),
                              [&](const OpenCopy &one) { return copies.is_known_to_all(one.copy); });
  open_copies_.erase(ended, open_copies_.end());
  being_copied_.clear();
  for (const OpenCopy &one : open_copies_)
    being_copied_.add(one.offset, one.bytes);
}

void SharedRaces::open(uint32_t copy, uint64_t offset, uint64_t bytes) {
  if (looks_at_each_)
    return;
  begin_phase();
  if (!noted_.empty() && was_read_.any(offset, bytes))
    look_at_noted();
  if (open_copies_.size() == most_open) {
    look_at_each();
    return;
  }
  if (open_copies_.empty())
    being_copied_.clear();
  open_copies_.push_back({copy, offset, bytes});
  being_copied_.add(offset, bytes);
}

bool SharedRaces::is_alone(Warp &w, const Instruction *i, const Reach &reach, uint64_t lowest, uint32_t bytes,
                           AccessKind kind) {
  const uint64_t offset = lowest - base_;
  if (reach.pattern == Pattern::far_apart || offset >= bytes_ || reach.span > bytes_ - offset ||
      looks_at_each_)
    return false;
  begin_phase();
  if (was_written_.any(offset, reach.span) ||
      (!open_copies_.empty() && being_copied_.any(offset, reach.span)))
    return false;
  if (kind == AccessKind::load) {
    note_read(w, i, reach, lowest, bytes);
    was_read_.add(offset, reach.span);
    return true;
  }
  if (reach.pattern != Pattern::contiguous || was_read_.any(offset, reach.span))
    return false;
  write(w, i, reach, offset, bytes);
  was_written_.add(offset, reach.span);
  return true;
}

void SharedRaces::write(const Warp &w, const Instruction *i, const Reach &reach, uint64_t offset,
                        uint32_t bytes) {
  Access now;
  now.instruction = static_cast<uint32_t>(i - w.program->code.data());
  now.at.phase = clocks_->phase();
  const uint32_t *clock = clocks_->of_warp(w.index);
  Piece *piece = pieces_.data() + (offset >> piece_bits_);
  if (!copied_.empty())
    std::fill_n(copied_.begin() + static_cast<std::ptrdiff_t>(offset >> piece_bits_),
                reach.lanes * bytes >> piece_bits_, Copied{});
  for (uint32_t lane = 0; lane < reach.lanes; ++lane) {
    now.at.thread = w.index * lanes_per_warp + lane;
    now.at.clock = clock[lane];
    for (uint32_t p = 0; p < bytes >> piece_bits_; ++p)
      (piece++)->write = now;
  }
}

void SharedRaces::note_read(Warp &w, const Instruction *i, const Reach &reach, uint64_t lowest,
                            uint32_t bytes) {
  if (noted_.size() == most_noted)
    look_at_noted();
  NotedRead &read = noted_.emplace_back();
  read.warp = &w;
  read.instruction = i;
  read.lowest = lowest;
  read.bytes = bytes;
  read.active = reach.active;
  read.pattern = reach.pattern;
  if (reach.pattern == Pattern::scattered) {
    read.offsets = static_cast<uint32_t>(noted_offsets_.size());
    std::copy_n(reach.offset, lanes_per_warp, noted_offsets_.emplace_back().begin());
  } else {
    for (uint32_t p = 0; p < read.pieces.size(); ++p)
      read.pieces[p] = reach.offset[p * lanes_of_piece];
  }
}

void SharedRaces::look_at_noted() {
  for (const NotedRead &read : noted_) {
    if (stretches_phase_ != clocks_->phase())
      break; // all is ordered before what comes
    uint64_t addresses[lanes_per_warp];
    const uint32_t step = read.pattern == Pattern::pieces_contiguous ? read.bytes : 0;
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      switch (read.pattern) {
      case Pattern::uniform:
        addresses[l] = read.lowest;
        break;
      case Pattern::contiguous:
        addresses[l] = read.lowest + uint64_t{l} * read.bytes;
        break;
      case Pattern::scattered:
        addresses[l] = read.lowest + noted_offsets_[read.offsets][l];
        break;
      default:
        addresses[l] = read.lowest + read.pieces[l / lanes_of_piece] + uint64_t{l % lanes_of_piece} * step;
      }
    look(*read.warp, read.instruction, read.active, addresses, read.bytes, AccessKind::load, false);
  }
  noted_.clear();
  noted_offsets_.clear();
}

void SharedRaces::access(Warp &w, const Instruction *i, uint32_t lanes, const uint64_t *addresses,
                         uint32_t bytes, AccessKind kind, bool strong) {
  if (!looks_at_each_) {
    begin_phase();
    const bool reads = kind == AccessKind::load;
    bool meets_noted = false;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      const uint64_t offset = addresses[first_lane(rest)] - base_;
      if (offset >= bytes_)
        continue;
      const uint64_t inside = std::min<uint64_t>(bytes, bytes_ - offset);
      meets_noted |= !noted_.empty() && was_read_.any(offset, inside);
      (reads ? was_read_ : was_written_).add(offset, inside);
    }
    if (meets_noted)
      look_at_noted();
  }
  look(w, i, lanes, addresses, bytes, kind, strong);
}

void SharedRaces::look(Warp &w, const Instruction *i, uint32_t lanes, const uint64_t *addresses,
                       uint32_t bytes, AccessKind kind, bool strong) {
  ++execution_;
  Access now;
  now.instruction = static_cast<uint32_t>(i - w.program->code.data());
  now.strong = strong;
  const uint32_t *clock = clocks_->of_warp(w.index);
  const uint32_t phase = now.at.phase = clocks_->phase();
  const bool meets_copies = !copied_.empty();
  const bool one_piece = bytes <= uint32_t{1} << piece_bits_;
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
    if (one_piece) {
      const uint64_t p = offset >> piece_bits_;
      Piece &piece = pieces_[p];
      const bool is_written = piece.write.at.phase == phase || piece.strong_write.at.phase == phase;
      const uint32_t copy = meets_copies ? copied_[p].write : 0;
      if (kind == AccessKind::load && !is_written && (copy == 0 || copies.knows_end(now.at.thread, copy))) {
        readers = offset == last ? readers + 1 : 1;
        if (!meets_copies)
          last = offset;
        read(piece, now);
        continue;
      }
      if (kind == AccessKind::store && !is_written && !strong && !meets_copies &&
          piece.read[0].at.phase != phase) {
        piece.write = now;
        written_in_[p] = execution_;
        continue;
      }
    }
    uint64_t end = (std::min(offset + bytes, bytes_) + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_;
    bool told = false; // once for each access of a thread
    for (uint64_t p = offset >> piece_bits_; p < end; ++p) {
      Piece &piece = pieces_[p];
      auto tell = [&](FindingKind what, const Named &before, bool same, bool is_copy = false) {
        if (told)
          return;
        told = true;
        FoundExample example;
        example.offset = offset;
        example.bytes = bytes;
        note_values(example, w, i, lane, addresses[lane], bytes, kind);
        if (what == FindingKind::write_after_write && written_in_[p] == execution_) { // not in memory yet
          FoundExample of_other;
          note_values(of_other, w, i, before.thread % lanes_per_warp, addresses[lane], bytes, kind);
          example.values[0] = of_other.values[1];
        }
        if (what == FindingKind::write_after_read)
          note_writer(example, p);
        report(w, what, before, named(now), same, is_copy, example);
      };
      auto meet = [&] {
        if (meets_copies)
          meet_copies(p, now, kind,
                      [&](FindingKind what, uint32_t copy) { tell(what, named_copy(copy), false, true); });
      };
      if (kind == AccessKind::load) {
        for (const Access *earlier : {&piece.write, &piece.strong_write})
          if (is_unordered(*earlier, now))
            tell(FindingKind::read_after_write, named(*earlier), false);
        meet();
        read(piece, now);
        continue;
      }
      if (is_unordered(piece.write, now))
        tell(FindingKind::write_after_write, named(piece.write),
             wrote_the_same(w, i, lane, addresses[lane], p, piece));
      if (is_unordered(piece.strong_write, now))
        tell(FindingKind::write_after_write, named(piece.strong_write), false);
      for (const Access &earlier : piece.read)
        if (is_unordered(earlier, now))
          tell(FindingKind::write_after_read, named(earlier), false);
      meet();
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
