// Rows of registers beside the rows that say which of their bits are undefined.
#pragma once

#include <cstring>

#include "exec/warp/warp.hpp"

namespace emulator::undefined {

constexpr uint32_t most_row_bytes = 8 * lanes_per_warp;
struct alignas(64) Row {
  uint8_t bytes[most_row_bytes];
};

inline uint32_t row_bytes(const ShadowOperand &operand) {
  return operand.lane_bytes ? operand.lane_bytes * lanes_per_warp : 4;
}
inline uint8_t &state(const Warp &w, const ShadowOperand &operand) {
  return w.shadow->state[operand.offset / 4];
}
inline ShadowOrigin &origin(const Warp &w, const ShadowOperand &operand) {
  return w.shadow->origins[operand.offset / 4];
}
inline bool is_dirty(const Warp &w, const ShadowOperand &operand) {
  return operand.offset != no_offset && state(w, operand) != 0;
}
// The undefined bits of a lane; of a predicate 0 or 1.
inline uint64_t lane(const Row &row, const ShadowOperand &operand, uint32_t l) {
  uint64_t bits = 0;
  if (operand.lane_bytes) {
    std::memcpy(&bits, row.bytes + size_t{l} * operand.lane_bytes, operand.lane_bytes);
    return bits;
  }
  std::memcpy(&bits, row.bytes, 4);
  return bits >> l & 1;
}
inline void set_lane(Row &row, const ShadowOperand &operand, uint32_t l, uint64_t bits) {
  if (operand.lane_bytes) {
    std::memcpy(row.bytes + size_t{l} * operand.lane_bytes, &bits, operand.lane_bytes);
    return;
  }
  uint32_t all;
  std::memcpy(&all, row.bytes, 4);
  all = (all & ~(uint32_t{1} << l)) | static_cast<uint32_t>(bits & 1) << l;
  std::memcpy(row.bytes, &all, 4);
}

inline void take(const Warp &w, const ShadowOperand &operand, Row &to) {
  std::memcpy(to.bytes, w.registers + operand.offset, row_bytes(operand));
}
inline void give(Warp &w, const ShadowOperand &operand, const Row &from) {
  std::memcpy(w.registers + operand.offset, from.bytes, row_bytes(operand));
}
inline void take_shadow(const Warp &w, const ShadowOperand &operand, Row &to) {
  if (is_dirty(w, operand))
    std::memcpy(to.bytes, w.shadow->registers + operand.offset, row_bytes(operand));
  else
    std::memset(to.bytes, 0, row_bytes(operand));
}
// The lanes that have undefined bits.
uint32_t undefined_lanes(const Warp &w, const ShadowOperand &operand);
// What `lanes` of a result are now, and where that comes from.
void put(Warp &w, const ShadowOperand &result, const Row &bits, uint32_t lanes, uint8_t how,
         const ShadowOrigin &from);
// They count as written.
void clear(Warp &w, const ShadowOperand &result, uint32_t lanes);

} // namespace emulator::undefined
