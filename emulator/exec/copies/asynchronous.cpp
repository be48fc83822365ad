#include "exec/copies/asynchronous.hpp"

#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/mbarrier.hpp"

namespace emulator::asynchronous {

namespace {

// The PTX ISA: bulk copies are multiples of 16 bytes between addresses that are multiples of 16.
constexpr uint32_t bulk_alignment = 16;

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

uint32_t bulk_bytes(Warp &w, const Instruction *i, uint32_t lane) {
  uint32_t bytes = operand<uint32_t>(w, i, 2, lane);
  if (bytes % bulk_alignment != 0)
    fail(w, i, LaunchStatus::illegal_instruction,
         "a bulk copy of " + std::to_string(bytes) + " bytes: the number must be a multiple of 16", lane);
  return bytes;
}

template <typename T> T combine(Operator op, T old, T value) {
  switch (op) {
  case Operator::add:
    if constexpr (std::is_floating_point_v<T>) {
      return old + value;
    } else {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(old) + static_cast<Bits>(value));
    }
  case Operator::minimum:
    return value < old ? value : old;
  case Operator::maximum:
    return value > old ? value : old;
  default:
    break;
  }
  if constexpr (std::is_unsigned_v<T>) {
    switch (op) {
    case Operator::increment:
      return old >= value ? T{0} : static_cast<T>(old + 1);
    case Operator::decrement:
      return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case Operator::bit_and:
      return old & value;
    case Operator::bit_or:
      return old | value;
    case Operator::bit_xor:
      return old ^ value;
    default:
      break;
    }
  }
  return value;
}

template <typename T> void combine_at(Operator op, uint64_t to, const void *from) {
  T old, value;
  std::memcpy(&old, reinterpret_cast<const void *>(to), sizeof old);
  std::memcpy(&value, from, sizeof value);
  old = combine<T>(op, old, value);
  std::memcpy(reinterpret_cast<void *>(to), &old, sizeof old);
}

} // namespace

void combine_element(Operator op, ptx::Type type, uint64_t to, const void *from) {
  switch (type) {
  case ptx::Type::s32:
    return combine_at<int32_t>(op, to, from);
  case ptx::Type::s64:
    return combine_at<int64_t>(op, to, from);
  case ptx::Type::f32:
    return combine_at<float>(op, to, from);
  case ptx::Type::f64:
    return combine_at<double>(op, to, from);
  default:
    return ptx::size_bytes(type) == 8 ? combine_at<uint64_t>(op, to, from)
                                      : combine_at<uint32_t>(op, to, from);
  }
}

const Instruction *copy(Warp &w, const Instruction *i) {
  uint32_t bytes = static_cast<uint32_t>(i->immediate);
  uint32_t ignored = has(w, i, 3) ? w.predicate(w.program->extra[i->extra + 3]) : 0;
  uint64_t sources[lanes_per_warp];
  uint32_t reading = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane), from = operand<uint64_t>(w, i, 1, lane);
    uint32_t wanted = has(w, i, 2) ? operand<uint32_t>(w, i, 2, lane) : bytes;
    if (wanted > bytes)
      fail(w, i, LaunchStatus::illegal_instruction,
           "cp.async of " + std::to_string(wanted) + " bytes into " + std::to_string(bytes), lane);
    if (ignored >> lane & 1)
      wanted = 0;
    if (to % bytes != 0)
      misaligned(w, i, lane, to, bytes);
    if (from % bytes != 0)
      misaligned(w, i, lane, from, bytes);
    check_access(w, i, lane, to, bytes, true);
    uint8_t *place = reinterpret_cast<uint8_t *>(to);
    if (wanted != 0) {
      check_access(w, i, lane, from, wanted, false);
      std::memcpy(place, reinterpret_cast<const void *>(from), wanted);
      reading |= uint32_t{1} << lane;
      sources[lane] = from;
    }
    std::memset(place + wanted, 0, bytes - wanted);
  }
  if (reading)
    count_global(w, sources, reading, bytes, false);
  return i + 1;
}

const Instruction *copy_bulk(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane), from = operand<uint64_t>(w, i, 1, lane);
    uint32_t bytes = bulk_bytes(w, i, lane);
    uint64_t signal = has(w, i, 3) ? operand<uint64_t>(w, i, 3, lane) : 0;
    check_range(w, i, lane, from, bytes, false);
    auto deliver = [&](uint64_t destination, uint64_t mbarrier) {
      check_range(w, i, lane, destination, bytes, true);
      if (has(w, i, 5)) {
        uint16_t mask = operand<uint16_t>(w, i, 5, lane);
        for (uint32_t b = 0; b < bytes; ++b)
          if (mask >> (b % 16) & 1)
            reinterpret_cast<uint8_t *>(destination)[b] = reinterpret_cast<const uint8_t *>(from)[b];
      } else if (bytes != 0) {
        std::memmove(reinterpret_cast<void *>(destination), reinterpret_cast<const void *>(from), bytes);
      }
      if (mbarrier)
        mbarrier::complete_bytes(w, i, lane, mbarrier, bytes);
    };
    deliver_to_blocks(w, i, 4, lane, to, signal, deliver);
  }
  return i + 1;
}

const Instruction *reduce_bulk(Warp &w, const Instruction *i) {
  Operator op = static_cast<Operator>(i->immediate & 0xff);
  ptx::Type type = static_cast<ptx::Type>(i->immediate >> 8);
  uint32_t size = ptx::size_bytes(type);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane), from = operand<uint64_t>(w, i, 1, lane);
    uint32_t bytes = bulk_bytes(w, i, lane);
    check_range(w, i, lane, from, bytes, false);
    check_range(w, i, lane, to, bytes, true);
    for (uint32_t b = 0; b < bytes; b += size)
      combine_element(op, type, to + b, reinterpret_cast<const void *>(from + b));
    if (has(w, i, 3))
      mbarrier::complete_bytes(w, i, lane, operand<uint64_t>(w, i, 3, lane), bytes);
  }
  return i + 1;
}

const Instruction *store(Warp &w, const Instruction *i) {
  Operator op = static_cast<Operator>(i->immediate & 0xff);
  ptx::Type type = static_cast<ptx::Type>(i->immediate >> 8 & 0xff);
  uint32_t size = ptx::size_bytes(type), count = static_cast<uint32_t>(i->immediate >> 16);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t to = operand<uint64_t>(w, i, 0, lane);
    if (to % (size * count) != 0)
      misaligned(w, i, lane, to, size * count);
    check_access(w, i, lane, to, size * count, true);
    for (uint32_t e = 0; e < count; ++e) {
      const uint8_t *row = w.registers + w.program->extra[i->extra + 2 + e];
      combine_element(op, type, to + e * size, row + lane * size);
    }
    if (has(w, i, 1))
      mbarrier::complete_bytes(w, i, lane, operand<uint64_t>(w, i, 1, lane), uint64_t{size} * count);
  }
  return i + 1;
}

} // namespace emulator::asynchronous
