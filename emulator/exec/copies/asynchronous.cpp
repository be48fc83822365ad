#include "exec/copies/asynchronous.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/copies/combine.hpp"
#include "exec/copies/deferred.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/mbarrier.hpp"

namespace emulator::asynchronous {

namespace {

// The PTX ISA: bulk copies are multiples of 16 bytes between addresses that are multiples of 16.
constexpr uint32_t bulk_alignment = 16;
constexpr uint64_t most_cleared_bytes = 16'777'216;
constexpr uint32_t most_stored_bytes = 32; // st.async.v4 of 64 bits

bool is_global(const Warp &w, uint64_t address) { return !w.block->cluster->block_at(address, 1); }

// Checks a range that one thread names; counts it when it is in global memory.
void check_range(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes, bool write) {
  if (address % bulk_alignment != 0)
    misaligned(w, i, lane, address, bulk_alignment);
  if (bytes == 0)
    return;
  check_access(w, i, lane, address, bytes, write);
  if (is_global(w, address))
    count_global_range(w, address, address + bytes, bytes, write);
}

// By where it goes: out of shared memory to global, or into shared memory.
void count_copy(Warp &w, uint64_t to, uint64_t bytes) {
  count_bulk(is_global(w, to) ? w.counters->bulk_stores : w.counters->bulk_loads, bytes);
}

uint32_t bulk_bytes(Warp &w, const Instruction *i, uint32_t lane) {
  uint32_t bytes = operand<uint32_t>(w, i, 2, lane);
  if (bytes % bulk_alignment != 0)
    fail(w, i, LaunchStatus::illegal_instruction,
         "a bulk copy of " + std::to_string(bytes) + " bytes: the number must be a multiple of 16", lane);
  return bytes;
}

// One lane's part of a cp.async.
struct Copy {
  uint64_t to = 0, from = 0;
  uint32_t wanted = 0; // bytes of the source: zeros after them
};

Copy copy_of(Warp &w, const Instruction *i, uint32_t lane, uint32_t bytes, uint32_t ignored) {
  Copy c;
  c.to = operand<uint64_t>(w, i, 0, lane);
  c.from = operand<uint64_t>(w, i, 1, lane);
  c.wanted = has(w, i, 2) ? operand<uint32_t>(w, i, 2, lane) : bytes;
  if (c.wanted > bytes)
    fail(w, i, LaunchStatus::illegal_instruction,
         "cp.async of " + std::to_string(c.wanted) + " bytes into " + std::to_string(bytes), lane);
  if (ignored >> lane & 1)
    c.wanted = 0;
  if (c.to % bytes != 0)
    misaligned(w, i, lane, c.to, bytes);
  if (c.from % bytes != 0)
    misaligned(w, i, lane, c.from, bytes);
  check_access(w, i, lane, c.to, bytes, true);
  if (c.wanted != 0)
    check_access(w, i, lane, c.from, c.wanted, false);
  return c;
}

// Until it is done, what it brings counts as not written.
void await(const Warp &w, uint64_t to, uint64_t bytes) {
  if (uint8_t *bits = w.shadow ? w.shadow->memory->own(to, bytes) : nullptr)
    std::memset(bits, 0xff, bytes);
}
void arrived(const Warp &w, uint64_t from, uint64_t to, uint64_t bytes) {
  if (w.shadow && bytes != 0)
    w.shadow->memory->copy(from, to, bytes);
}

void perform(const Warp &w, const Copy &c, uint32_t bytes) {
  uint8_t *place = reinterpret_cast<uint8_t *>(c.to);
  if (c.wanted != 0)
    std::memcpy(place, reinterpret_cast<const void *>(c.from), c.wanted);
  std::memset(place + c.wanted, 0, bytes - c.wanted);
  if (!w.shadow)
    return;
  w.shadow->memory->written(c.to, bytes);
  arrived(w, c.from, c.to, c.wanted);
}

// An operation of `lane` on [from, from + bytes) and [to, to + bytes), whichever of them is shared memory.
// signal: the mbarrier that tells of its end, or 0: a group does.
void tell_checks(Warp &w, const Instruction *i, uint32_t lane, uint64_t from, uint64_t to, uint64_t bytes,
                 uint64_t signal) {
  if (!w.block->checks)
    return;
  BlockChecks &checks = *w.block->checks;
  uint32_t copy = checks.begin_copy(w, i, lane, signal ? CopyEnd::gate : CopyEnd::bulk_group, signal);
  checks.copies(w, lane, from, bytes, false, copy);
  checks.copies(w, lane, to, bytes, true, copy);
}

} // namespace

const Instruction *copy(Warp &w, const Instruction *i) {
  uint32_t bytes = static_cast<uint32_t>(i->immediate);
  uint32_t ignored = has(w, i, 3) ? w.predicate(w.program->extra[i->extra + 3]) : 0;
  uint64_t sources[lanes_per_warp];
  uint32_t reading = 0;
  PendingOperations *pending = w.block->pending;
  std::vector<Copy> later(pending ? lanes_per_warp : 0);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    Copy c = copy_of(w, i, lane, bytes, ignored);
    if (c.wanted != 0) {
      reading |= uint32_t{1} << lane;
      sources[lane] = c.from;
    }
    if (w.block->checks)
      w.block->checks->copies(w, lane, c.to, bytes, true,
                              w.block->checks->begin_copy(w, i, lane, CopyEnd::group));
    if (pending) {
      later[lane] = c;
      await(w, c.to, bytes);
    } else {
      perform(w, c, bytes);
    }
  }
  if (reading)
    count_global(w, sources, reading, bytes, false);
  if (pending) {
    PendingOperation operation;
    operation.warp = &w;
    operation.lanes = w.active;
    operation.track = Track::copies;
    operation.finish = [&w, bytes, copies = std::move(later)](uint32_t lanes) {
      for (; lanes; lanes &= lanes - 1)
        perform(w, copies[first_lane(lanes)], bytes);
    };
    pending->issue(std::move(operation));
  }
  return i + 1;
}

const Instruction *copy_bulk(Warp &w, const Instruction *i) {
  Cluster &cluster = *w.block->cluster;
  PendingOperations *pending = i->immediate == at_once ? nullptr : w.block->pending;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t from = operand<uint64_t>(w, i, 1, lane);
    uint32_t bytes = bulk_bytes(w, i, lane);
    uint64_t signal = has(w, i, 3) ? operand<uint64_t>(w, i, 3, lane) : 0;
    uint16_t mask = has(w, i, 5) ? operand<uint16_t>(w, i, 5, lane) : 0xffff;
    Deliveries to(w, i, 4, lane, operand<uint64_t>(w, i, 0, lane), signal);
    check_range(w, i, lane, from, bytes, false);
    for (const Delivery &each : to)
      check_range(w, i, lane, each.to, bytes, true);
    for (const Delivery *each = to.begin(); each != to.end() && i->immediate != at_once; ++each)
      tell_checks(w, i, lane, from, each->to, bytes, each->mbarrier);
    if (i->immediate == at_once && w.block->pending)
      w.block->pending->map_changes(to.begin()->to, bytes);
    if (i->immediate != at_once)
      count_copy(w, to.begin()->to, bytes * static_cast<uint64_t>(to.end() - to.begin()));
    auto deliver = [=, &w, &cluster](const uint8_t *contents) {
      for (const Delivery &each : to) {
        uint8_t *place = reinterpret_cast<uint8_t *>(each.to);
        if (mask != 0xffff) {
          for (uint32_t b = 0; b < bytes; ++b)
            if (mask >> (b % 16) & 1)
              place[b] = contents[b];
        } else if (bytes != 0) {
          std::memmove(place, contents, bytes);
        }
        if (mask == 0xffff)
          arrived(w, from, each.to, bytes);
        else if (w.shadow)
          w.shadow->memory->written(each.to, bytes);
        cluster.written_asynchronously(each.to, bytes);
        if (each.mbarrier)
          mbarrier::complete_bytes(w, i, lane, each.mbarrier, bytes);
      }
    };
    const uint8_t *source = reinterpret_cast<const uint8_t *>(from);
    if (!pending) {
      deliver(source);
      continue;
    }
    for (const Delivery &each : to)
      await(w, each.to, bytes);
    source += cluster.distance_to_fenced(from, bytes);
    defer(
        w, *pending, lane, signal ? Track::signalled : Track::bulk, to.signals(),
        [source, bytes](std::vector<uint8_t> &contents) { contents.assign(source, source + bytes); },
        deliver);
  }
  return i + 1;
}

const Instruction *reduce_bulk(Warp &w, const Instruction *i) {
  Operator op = static_cast<Operator>(i->immediate & 0xff);
  ptx::Type type = static_cast<ptx::Type>(i->immediate >> 8);
  uint32_t size = ptx::size_bytes(type);
  Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane), from = operand<uint64_t>(w, i, 1, lane);
    uint64_t signal = has(w, i, 3) ? operand<uint64_t>(w, i, 3, lane) : 0;
    uint32_t bytes = bulk_bytes(w, i, lane);
    check_range(w, i, lane, from, bytes, false);
    check_range(w, i, lane, to, bytes, true);
    tell_checks(w, i, lane, from, to, bytes, signal);
    count_copy(w, to, bytes);
    auto deliver = [=, &w, &cluster](const uint8_t *contents) {
      for (uint32_t b = 0; b < bytes; b += size)
        combine_element(op, type, to + b, contents + b);
      cluster.written_asynchronously(to, bytes);
      if (signal)
        mbarrier::complete_bytes(w, i, lane, signal, bytes);
    };
    const uint8_t *source = reinterpret_cast<const uint8_t *>(from);
    if (!w.block->pending) {
      deliver(source);
      continue;
    }
    source += cluster.distance_to_fenced(from, bytes);
    defer(
        w, *w.block->pending, lane, signal ? Track::signalled : Track::bulk, {signal},
        [source, bytes](std::vector<uint8_t> &contents) { contents.assign(source, source + bytes); },
        deliver);
  }
  return i + 1;
}

const Instruction *clear(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane);
    uint64_t bytes = i->immediate ? operand<uint64_t>(w, i, 1, lane) : operand<uint32_t>(w, i, 1, lane);
    if (bytes % 8 != 0 || bytes > most_cleared_bytes)
      fail(w, i, LaunchStatus::illegal_instruction,
           "st.bulk of " + std::to_string(bytes) + " bytes: the number must be a multiple of 8, at most " +
               std::to_string(most_cleared_bytes),
           lane);
    if (bytes == 0)
      continue;
    if (w.block->cluster->block_at(to, 1) != w.block)
      fail(w, i, LaunchStatus::illegal_address, "st.bulk outside of the block's shared memory", lane);
    check_access(w, i, lane, to, static_cast<uint32_t>(bytes), true);
    if (w.block->checks)
      w.block->checks->clear(w, i, lane, to, static_cast<uint32_t>(bytes));
    std::memset(reinterpret_cast<void *>(to), 0, bytes);
  }
  return i + 1;
}

const Instruction *store(Warp &w, const Instruction *i) {
  Operator op = static_cast<Operator>(i->immediate & 0xff);
  ptx::Type type = static_cast<ptx::Type>(i->immediate >> 8 & 0xff);
  uint32_t size = ptx::size_bytes(type), count = static_cast<uint32_t>(i->immediate >> 16);
  Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane);
    uint64_t signal = has(w, i, 1) ? operand<uint64_t>(w, i, 1, lane) : 0;
    if (to % (size * count) != 0)
      misaligned(w, i, lane, to, size * count);
    check_access(w, i, lane, to, size * count, true);
    if (signal)
      tell_checks(w, i, lane, 0, to, size * count, signal);
    std::array<uint8_t, most_stored_bytes> values{};
    for (uint32_t e = 0; e < count; ++e)
      std::memcpy(values.data() + e * size, w.registers + w.program->extra[i->extra + 2 + e] + lane * size,
                  size);
    auto deliver = [=, &w, &cluster](uint32_t) {
      for (uint32_t e = 0; e < count; ++e)
        combine_element(op, type, to + e * size, values.data() + e * size);
      cluster.written_asynchronously(to, uint64_t{size} * count);
      if (signal)
        mbarrier::complete_bytes(w, i, lane, signal, uint64_t{size} * count);
    };
    // Without an mbarrier it is a store like others, which nothing but the order of memory tells of.
    if (!w.block->pending || !signal) {
      deliver(0);
      continue;
    }
    PendingOperation operation;
    operation.warp = &w;
    operation.lanes = uint32_t{1} << lane;
    operation.signals = {signal};
    operation.finish = deliver;
    w.block->pending->issue(std::move(operation));
  }
  return i + 1;
}

namespace {

constexpr uint32_t warps_of_group = 4;

// The first of the warps that multiply together with this one.
Warp *warpgroup_of(const Warp &w) { return &w.block->warps[w.index / warps_of_group * warps_of_group]; }

CopyEnd end_of(Track track) { return track == Track::copies ? CopyEnd::group : CopyEnd::bulk_group; }

bool waits_for_others(const WaitingGroup &group) { return group.barrier == waits_for_warpgroup; }

std::string describe_warpgroup(const Warp &w, uint64_t last) {
  for (const Warp *other = warpgroup_of(w); other <= &w.block->warps.back(); ++other)
    if (uint32_t groups = w.block->pending->groups_of_warp(*other, Track::products); groups < last)
      return "warp " + std::to_string(other->index) + " of its warpgroup, which has committed " +
             std::to_string(groups) + " groups of products, not " + std::to_string(last);
  return "its warpgroup";
}

} // namespace

const Instruction *commit(Warp &w, const Instruction *i) {
  Track track = static_cast<Track>(i->immediate);
  if (w.block->checks && (track == Track::copies || track == Track::bulk))
    w.block->checks->commit_copies(w, end_of(track));
  if (w.block->checks && track == Track::products)
    w.block->checks->commit_products(w);
  if (!w.block->pending)
    return i + 1;
  w.block->pending->commit(w, track, w.active);
  for (uint32_t k = 0; track == Track::products && k < warps_of_group; ++k)
    if (w.index / warps_of_group * warps_of_group + k < w.block->warps.size())
      warpgroup_of(w)[k].wake(waits_for_others, false);
  return i + 1;
}

const Instruction *wait_for_products(Warp &w, const Instruction *i) {
  PendingOperations &pending = *w.block->pending;
  pending.pass_moment();
  uint32_t groups = pending.groups_of_warp(w, Track::products), staying = static_cast<uint32_t>(i->immediate);
  if (w.block->checks)
    w.block->checks->wait_for_products(w, staying);
  if (groups <= staying)
    return w.go_to(i + 1);
  Warp *first = warpgroup_of(w);
  Warp *end = std::min(first + warps_of_group, w.block->warps.data() + w.block->warps.size());
  for (Warp *other = first; other != end; ++other)
    if (pending.groups_of_warp(*other, Track::products) < groups - staying) {
      const Instruction *stopped = w.wait_at_barrier(i, waits_for_warpgroup);
      w.waiting.back().awaited = {groups - staying, nullptr, describe_warpgroup};
      return stopped;
    }
  for (Warp *other = first; other != end; ++other)
    pending.finish_groups(*other, Track::products, groups - staying);
  return w.go_to(i + 1);
}

const Instruction *wait(Warp &w, const Instruction *i) {
  bool reading = i->immediate >> 8 & 1, all = i->immediate >> 9 & 1;
  Track track = static_cast<Track>(i->immediate & 0xff);
  const uint64_t groups = static_cast<uint64_t>(i->immediate >> 16);
  if (BlockChecks *checks = w.block->checks.get(); checks && track == Track::products) {
    checks->wait_for_products(w, groups);
  } else if (checks && (track == Track::copies || track == Track::bulk)) {
    if (all)
      checks->wait_for_all_copies(w, end_of(track));
    else
      checks->wait_for_copies(w, end_of(track), groups);
  }
  if (!w.block->pending)
    return i + 1;
  if (all)
    w.block->pending->wait_for_all(w, track, w.active);
  else
    w.block->pending->wait(w, track, w.active, groups, reading);
  return i + 1;
}

const Instruction *arrive_after_copies(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t address = operand<uint64_t>(w, i, 0, lane);
    bool counts = i->immediate != 0;
    if (!counts)
      mbarrier::add_arrival(w, i, lane, address);
    if (w.block->checks)
      w.block->checks->arrive_after_copies(w, lane, address);
    if (!w.block->pending) {
      mbarrier::arrive_once(w, i, lane, address);
      continue;
    }
    PendingOperation operation;
    operation.warp = &w;
    operation.lanes = uint32_t{1} << lane;
    operation.track = Track::copies;
    operation.in_order = true;
    operation.signals = {address};
    operation.finish = [=, &w](uint32_t) { mbarrier::arrive_once(w, i, lane, address); };
    w.block->pending->issue(std::move(operation));
  }
  return i + 1;
}

const Instruction *fence_shared(Warp &w, const Instruction *i) {
  w.block->cluster->fence_shared();
  w.block->pending->pass_moment();
  return i + 1;
}

const Instruction *acquire_map(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1)
    w.block->pending->map_acquired(operand<uint64_t>(w, i, 0, first_lane(lanes)));
  return i + 1;
}

const Instruction *fence_registers(Warp &w, const Instruction *i) {
  w.block->fence_registers(w);
  w.block->pending->pass_moment();
  return i + 1;
}

} // namespace emulator::asynchronous
