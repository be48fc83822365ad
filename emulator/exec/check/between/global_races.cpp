#include "exec/check/between/global_races.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "exec/check/findings.hpp"
#include "exec/check/stored.hpp"

namespace emulator {

namespace {

bool reaches_global(const Instruction &i) {
  return i.space == ptx::Space::global || i.space == ptx::Space::generic;
}

bool writes_global(const Program &program) {
  return std::any_of(program.code.begin(), program.code.end(), [](const Instruction &i) {
    return reaches_global(i) && ((i.element_bytes != 0 && i.lane_bytes != 0) || (i.order & is_strong));
  });
}

// Of each instruction, whether it is a load of what is only compared by an atomic `cas`: a guess, which that
// corrects where others have changed the word in between.
std::vector<bool> find_guesses(const Program &program) {
  std::unordered_set<uint32_t> compared; // rows
  for (const Instruction &i : program.code)
    if ((i.order & is_strong) && i.b != no_offset && i.c != no_offset)
      compared.insert(i.b);
  std::vector<bool> found(program.code.size(), false);
  for (size_t before = 0; before != compared.size();) {
    before = compared.size();
    for (const Instruction &i : program.code)
      if (compared.count(i.destination) && i.element_bytes == 0 && i.a != no_offset && i.b == no_offset)
        compared.insert(i.a); // moved
  }
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Instruction &i = program.code[k];
    found[k] = i.element_bytes != 0 && i.order == 0 && i.lane_bytes == 0 && compared.count(i.destination);
  }
  return found;
}

} // namespace

std::string why_not_followed(const std::string &instruction) {
  return "it uses " + instruction + ", whose order with other accesses of a block is not followed";
}

std::string why_no_global_races(const Launch &launch) {
  const LaunchRequest &request = *launch.request;
  if (blocks_per_cluster(request) > 1)
    return "its blocks form clusters, whose order is not followed";
  if (orders_threads(launch.program->unfollowed))
    return why_not_followed(launch.program->unfollowed);
  for (const Callee &callee : launch.program->callees)
    if (callee.kind == CalleeKind::malloc || callee.kind == CalleeKind::free)
      return "it allocates memory itself, which may be another thread's afterwards";
  return "";
}

bool looks_for_global_races(const Launch &launch) {
  return (launch.request->checks & bit_of(Check::race)) && why_no_global_races(launch).empty() &&
         writes_global(*launch.program);
}

GlobalRaces::GlobalRaces(const Launch &launch)
    : launch_(launch), piece_bits_(smallest_access_bits(*launch.program, ptx::Space::global)),
      is_guess_(find_guesses(*launch.program)) {
  follows_block_ = launch.program->unfollowed.empty();
}

void GlobalRaces::prepare(OfBlock &block, Clocks &clocks) {
  block.order.prepare(launch_.threads_per_block, clocks);
  block.noted.assign(size_t{launch_.warps_per_block} * (launch_.program->sites + 1), 0);
}

GlobalRaces::Page &GlobalRaces::page(uint64_t number) {
  CachedPage &cached = cache_[number % cached_pages];
  if (cached.number != number) {
    Page &found = pages_[number];
    cached = {number, &found};
  }
  return *cached.page;
}

uint32_t GlobalRaces::note_access(const Warp &w, const Instruction *i, const Access &now, OfBlock &block) {
  uint32_t &noted = block.noted[size_t{w.index} * (launch_.program->sites + 1) + i->site];
  if (noted) {
    const Access &last = at(noted * lanes_per_warp);
    if (last.block == now.block && last.phase == now.phase && last.clock == now.clock &&
        last.instruction == now.instruction)
      return noted * lanes_per_warp;
  }
  if (count_ >= most_accesses)
    return 0;
  if (count_ >> chunk_bits >= accesses_.size())
    accesses_.emplace_back(new Access[size_t{1} << chunk_bits]);
  noted = count_++;
  at(noted * lanes_per_warp) = now;
  return noted * lanes_per_warp;
}

inline bool GlobalRaces::is_ordered(uint32_t before, const Access &now, uint32_t thread, const Now &block) {
  const Access &then = at(before);
  const uint32_t by = thread_of(before, then);
  if (then.block == now.block)
    return !follows_block_ || then.phase != now.phase || by == thread ||
           block.clocks.knows(thread, {then.phase, then.clock, by});
  return block.order.knows(then.block, then.phase, then.clock, by, thread);
}

inline bool GlobalRaces::is_race(uint32_t before, const Access &now, uint32_t thread, const Now &block) {
  const Access &then = at(before);
  const bool see_each_other =
      then.strong && now.strong && (then.block == now.block || (!then.of_block && !now.of_block));
  return !see_each_other && !is_ordered(before, now, thread, block);
}

void GlobalRaces::note_read(Page &page, size_t piece, uint32_t own, const Access &now, uint32_t thread,
                            const Now &block) {
  const uint32_t read = page.reads.at(piece), other = page.others.at(piece);
  // One that nothing orders before this one stays: it says more.
  if (read == own)
    return;
  if (read == 0 || (at(read).strong && !now.strong) || is_ordered(read, now, thread, block)) {
    page.reads.set(piece, own, pieces());
    return;
  }
  if (at(read).block == now.block && (other == 0 || is_ordered(other, now, thread, block)))
    page.others.set(piece, own, pieces());
}

void GlobalRaces::report(Warp &w, FindingKind kind, uint32_t before, const Access &now, bool same_value,
                         FoundExample example) {
  const Access &then = at(before);
  example.block = now.block;
  example.first_block = then.block;
  example.first_thread = thread_of(before, then);
  example.space = "global";
  example.count = 1;
  const bool one_warp = then.block == now.block && then.warp == now.warp;
  note(w.worker->found, {Check::race, kind, then.instruction, now.instruction, same_value, one_warp},
       example);
}

// Whether a lane stores what the last write has left, or is leaving: of the lanes `done` nothing is in memory
// yet.
bool GlobalRaces::stores_the_same(const Warp &w, const Instruction *i, uint32_t lane,
                                  const uint64_t *addresses, uint32_t done, uint32_t before, uint32_t id,
                                  uint64_t place) {
  const uint32_t bytes = uint32_t{1} << piece_bits_, by = before % lanes_per_warp;
  const uint64_t stored_bytes = uint64_t{i->element_bytes} * std::max<uint32_t>(i->extra_count, 1);
  const bool is_under_way = before / lanes_per_warp == id / lanes_per_warp && (done >> by & 1) &&
                            place - addresses[by] < stored_bytes;
  if (!is_under_way)
    return stores_what_is_there(w, i, lane, addresses[lane], place, bytes);
  if (i->lane_bytes == 0 || place < addresses[lane] || place + bytes > addresses[lane] + stored_bytes ||
      place + bytes > addresses[by] + stored_bytes)
    return false;
  uint8_t now[16], old[16];
  stored(w, i, lane, static_cast<uint32_t>(place - addresses[lane]), bytes, now);
  stored(w, i, by, static_cast<uint32_t>(place - addresses[by]), bytes, old);
  return std::memcmp(now, old, bytes) == 0;
}

bool GlobalRaces::look(Warp &w, const Instruction *i, uint32_t lane, const uint64_t *addresses, uint32_t done,
                       uint32_t bytes, AccessKind kind, uint32_t id, const Now &block) {
  const Access &now = at(id);
  const uint64_t address = addresses[lane];
  const uint32_t thread = w.index * lanes_per_warp + lane, own = id + lane;
  bool told = false; // once for each access of a thread
  auto tell = [&](FindingKind what, uint32_t before, bool same, uint32_t writer = 0) {
    if (told)
      return;
    told = true;
    FoundExample example;
    example.second_thread = thread;
    example.offset = address;
    example.bytes = bytes;
    note_values(example, w, i, lane, address, bytes, kind);
    if (writer != 0) {
      example.writer_instruction = at(writer).instruction;
      example.writer_block = at(writer).block;
      example.writer_thread = thread_of(writer, at(writer));
    }
    report(w, what, before, now, same, example);
  };
  const uint64_t end = (address + bytes + (uint64_t{1} << piece_bits_) - 1) >> piece_bits_;
  for (uint64_t piece = address >> piece_bits_; piece < end; ++piece) {
    uint64_t place = piece << piece_bits_;
    Page &in = page(place >> page_bits);
    const size_t index = (place & ((uint64_t{1} << page_bits) - 1)) >> piece_bits_;
    const uint32_t write = in.writes.at(index);
    if (write != 0 && write != own && is_race(write, now, thread, block))
      tell(kind == AccessKind::load ? FindingKind::read_after_write : FindingKind::write_after_write, write,
           kind == AccessKind::store && !at(write).strong && !now.strong &&
               stores_the_same(w, i, lane, addresses, done, write, id, place));
    if (kind == AccessKind::load) {
      note_read(in, index, own, now, thread, block);
      continue;
    }
    const uint32_t first = in.reads.at(index), other = in.others.at(index);
    // What several threads of a block load by one instruction, one of them may store: compilers let each
    // thread load what it needs of a value that they share, as Triton does of a scalar.
    const bool is_shared_load = other != 0 && at(other).block == now.block && at(other).phase == now.phase &&
                                at(other).instruction == at(first).instruction;
    for (const uint32_t read : {first, other})
      if (read != 0 && read != own && !(is_shared_load && at(read).block == now.block) &&
          is_race(read, now, thread, block))
        tell(FindingKind::write_after_read, read, false, write);
    in.writes.set(index, own, pieces());
    in.reads.set(index, 0, pieces());
    in.others.set(index, 0, pieces());
  }
  return told;
}

Known &GlobalRaces::place(uint64_t address) {
  uint64_t word = address / 4;
  if (auto found = places_.find(word); found != places_.end())
    return found->second;
  return places_.size() < most_places ? places_[word] : elsewhere_;
}

void GlobalRaces::access(Warp &w, const Instruction *i, uint32_t lanes, const uint64_t *addresses,
                         uint32_t bytes, AccessKind kind, Clocks &clocks, OfBlock &block) {
  if (!reaches_global(*i))
    return;
  if (i->space == ptx::Space::generic)
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      uint32_t lane = first_lane(rest);
      if (addresses[lane] - w.shared_base < w.shared_bytes ||
          addresses[lane] - w.local_base < w.local_stride * lanes_per_warp)
        lanes &= ~(uint32_t{1} << lane);
    }
  if (lanes == 0)
    return;
  const bool strong = kind == AccessKind::atomic || i->order != 0, of_block = i->order & among_block;
  const uint32_t first = w.index * lanes_per_warp;
  const bool orders = strong && !of_block;
  auto read_strongly = [&](uint32_t lane) {
    if (auto found = places_.find(addresses[lane] / 4); found != places_.end())
      block.order.read_strongly(first + lane, found->second);
    block.order.read_strongly(first + lane, elsewhere_);
  };
  for (uint32_t rest = orders && kind != AccessKind::store ? lanes : 0; rest; rest &= rest - 1)
    read_strongly(first_lane(rest));
  const uint32_t *clock = clocks.of_warp(w.index);
  Access now{};
  now.block = static_cast<uint32_t>(block.order.block());
  now.phase = clocks.phase();
  now.clock = UINT32_MAX;
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    now.clock = std::min(now.clock, clock[first_lane(rest)]);
  now.instruction = static_cast<uint32_t>(i - w.program->code.data());
  now.strong = strong || is_guess_[now.instruction];
  now.of_block = of_block;
  now.warp = w.index;
  uint32_t id = note_access(w, i, now, block);
  const Now here{clocks, block.order};
  uint64_t last = UINT64_MAX; // where lanes before this one read, of which two are kept
  uint32_t readers = 0;
  for (uint32_t rest = id ? lanes : 0; rest; rest &= rest - 1) {
    const uint32_t lane = first_lane(rest);
    if (kind == AccessKind::load && addresses[lane] == last && readers >= 2)
      continue;
    const bool told = look(w, i, lane, addresses, lanes & ~rest, bytes, kind, id, here);
    readers = addresses[lane] != last ? 1 : readers + 1;
    last = told ? UINT64_MAX : addresses[lane];
  }
  for (uint32_t rest = orders && kind != AccessKind::load ? lanes : 0; rest; rest &= rest - 1) {
    const uint32_t lane = first_lane(rest);
    if (kind == AccessKind::atomic && rest != lanes) // after the lanes before it
      read_strongly(lane);
    block.order.write_strongly(first + lane, place(addresses[lane]), i->order & releases);
  }
}

} // namespace emulator
