#include "exec/copies/tensor/copies.hpp"

#include <cstring>
#include <vector>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/copies/combine.hpp"
#include "exec/copies/deferred.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/mbarrier.hpp"
#include "exec/copies/tensor/box.hpp"

namespace emulator::tensor_copies {

namespace {

constexpr uint32_t shared_alignment = 128; // PTX ISA: of the box in shared memory
// What lies outside of a tensor whose map asks for NaN, each 16 bits of it. Not documented: seen on GPUs by
// others.
constexpr uint16_t outside_nan = 0x7ff7;

// FLOAT32_FTZ, TFLOAT32, TFLOAT32_FTZ: subnormal numbers become zero, numbers are rounded to the nearest tf32
// (PTX ISA, tensor formats). Others stay as they are.
void convert(uint8_t type, std::vector<uint8_t> &contents) {
  constexpr uint8_t first = 10, last = 12;
  if (type < first || type > last)
    return;
  bool flushes = type != first + 1, rounds = type != first;
  for (size_t at = 0; at < contents.size(); at += 4) {
    uint32_t bits;
    std::memcpy(&bits, &contents[at], 4);
    uint32_t exponent = bits >> 23 & 0xff;
    if (flushes && exponent == 0)
      bits &= 0x80000000;
    if (rounds && exponent != 0xff)
      bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff};
    std::memcpy(&contents[at], &bits, 4);
  }
}

[[noreturn]] void refuse(Warp &w, const Instruction *i, uint32_t lane, const std::string &why) {
  fail(w, i, LaunchStatus::illegal_instruction, why, lane);
}

uint64_t shared_base_of(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, const Box &box,
                        bool write) {
  const Block *holder = w.block->cluster->block_at(address, 1);
  if (!holder)
    refuse(w, i, lane, "a copy of a tensor to or from what is not shared memory");
  uint64_t base = holder->warps[0].shared_base;
  if ((address - base) % shared_alignment != 0)
    misaligned(w, i, lane, address - base, shared_alignment);
  check_access(w, i, lane, address, box.shared_bytes(), write);
  return base;
}

void fill_with_nan(std::vector<uint8_t> &contents) {
  for (size_t at = 0; at < contents.size(); at += sizeof outside_nan)
    std::memcpy(&contents[at], &outside_nan, sizeof outside_nan);
}

// Sixteen elements of six bits, each in a byte of its own, side by side (.b6p2x16).
void pack_sixes(const uint8_t *bytes, uint8_t *packed) {
  for (uint32_t group = 0; group < 4; ++group, bytes += 4, packed += 3) {
    uint32_t bits = 0;
    for (uint32_t k = 0; k < 4; ++k)
      bits |= uint32_t{bytes[k] & 0x3fu} << 6 * k;
    std::memcpy(packed, &bits, 3);
  }
}

// What a store or a reduction has that a load has not.
void check_store(Warp &w, const Instruction *i, uint32_t lane, const Box &box, asynchronous::Operator op) {
  constexpr uint8_t padded_fours = 14;
  if (box.flips())
    refuse(w, i, lane, "a store through a tensor map whose swizzle flips 8 bytes");
  if (box.map.type == padded_fours)
    refuse(w, i, lane, "a store through a tensor map of padded elements of 4 bits");
  if (op != asynchronous::Operator::replace && !asynchronous::can_combine(op, box.type))
    refuse(w, i, lane, "a reduction that elements of this tensor's type have not");
}

// A copy between global memory and what the box covers of shared memory.
void tell_checks(Warp &w, const Instruction *i, uint32_t lane, const Box &box, uint64_t address, bool writes,
                 uint64_t signal) {
  BlockChecks *checks = w.block->checks.get();
  uint32_t copy =
      checks ? checks->begin_copy(w, i, lane, signal ? CopyEnd::gate : CopyEnd::bulk_group, signal) : 0;
  if (copy == 0)
    return;
  uint64_t base = shared_base_of(w, i, lane, address, box, writes);
  each_chunk(box, base, address, [&](uint32_t, const uint8_t *at, uint32_t bytes) {
    checks->copies(w, lane, reinterpret_cast<uint64_t>(at), bytes, writes, copy);
  });
}

} // namespace

const Instruction *load(Warp &w, const Instruction *i) {
  PendingOperations *pending = w.block->pending;
  Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    Box box = box_of(w, i, lane);
    Deliveries to(w, i, blocks, lane, operand<uint64_t>(w, i, shared, lane),
                  operand<uint64_t>(w, i, signal, lane), (i->immediate & for_pairs) != 0);
    count_bulk(w.counters->bulk_loads, box.shared_bytes() * static_cast<uint64_t>(to.end() - to.begin()));
    for (const Delivery &each : to)
      tell_checks(w, i, lane, box, each.to, true, each.mbarrier);
    auto take = [=, &w](std::vector<uint8_t> &contents) {
      contents.resize(box.bytes());
      if (box.map.fill != 0)
        fill_with_nan(contents);
      each_part(box, [&](uint32_t offset, uint64_t address, uint32_t units, bool inside) {
        if (!inside)
          return; // as filled
        uint32_t bytes = units * box.unit_bytes;
        check_access(w, i, lane, address, bytes, false);
        count_global_range(w, address, address + bytes, bytes, false);
        std::memcpy(contents.data() + offset, reinterpret_cast<const void *>(address), bytes);
      });
      convert(box.map.type, contents);
    };
    auto deliver = [=, &w, &cluster](const uint8_t *contents) {
      for (const Delivery &each : to) {
        uint64_t base = shared_base_of(w, i, lane, each.to, box, true);
        uint64_t fenced = cluster.fenced_distance(each.to);
        each_chunk(box, base, each.to, [&](uint32_t offset, uint8_t *at, uint32_t bytes) {
          std::memcpy(at, contents + offset, bytes);
          if (fenced)
            std::memcpy(at + fenced, contents + offset, bytes);
        });
        mbarrier::complete_bytes(w, i, lane, each.mbarrier, box.bytes());
      }
    };
    if (pending) {
      defer(w, *pending, lane, Track::signalled, to.signals(), take, deliver);
    } else {
      std::vector<uint8_t> contents;
      take(contents);
      deliver(contents.data());
    }
  }
  return i + 1;
}

const Instruction *store(Warp &w, const Instruction *i) {
  auto op = static_cast<asynchronous::Operator>(i->immediate >> 8 & 0xff);
  PendingOperations *pending = w.block->pending;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    Box box = box_of(w, i, lane);
    check_store(w, i, lane, box, op);
    uint64_t from = operand<uint64_t>(w, i, shared, lane);
    uint64_t base = shared_base_of(w, i, lane, from, box, false);
    count_bulk(w.counters->bulk_stores, box.shared_bytes());
    tell_checks(w, i, lane, box, from, false, 0);
    uint64_t distance = w.block->cluster->distance_to_fenced(from, box.shared_bytes());
    auto take = [=](std::vector<uint8_t> &contents) {
      contents.resize(box.bytes());
      each_chunk(box, base, from, [&](uint32_t offset, const uint8_t *at, uint32_t bytes) {
        if (box.padded())
          pack_sixes(at + distance, contents.data() + offset);
        else
          std::memcpy(contents.data() + offset, at + distance, bytes);
      });
      convert(box.map.type, contents);
    };
    auto deliver = [=, &w](const uint8_t *contents) {
      each_part(box, [&](uint32_t offset, uint64_t address, uint32_t units, bool inside) {
        if (!inside)
          return; // goes nowhere
        uint32_t bytes = units * box.unit_bytes;
        check_access(w, i, lane, address, bytes, true);
        count_global_range(w, address, address + bytes, bytes, true);
        if (op == asynchronous::Operator::replace)
          std::memcpy(reinterpret_cast<void *>(address), contents + offset, bytes);
        else
          for (uint32_t b = 0; b < bytes; b += ptx::size_bytes(box.type))
            asynchronous::combine_element(op, box.type, address + b, contents + offset + b);
      });
    };
    if (pending) {
      defer(w, *pending, lane, Track::bulk, {}, take, deliver);
    } else {
      std::vector<uint8_t> contents;
      take(contents);
      deliver(contents.data());
    }
  }
  return i + 1;
}

} // namespace emulator::tensor_copies
