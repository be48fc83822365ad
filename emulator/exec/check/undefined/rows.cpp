#include "exec/check/undefined/rows.hpp"

#include <algorithm>

namespace emulator::undefined {

uint32_t undefined_lanes(const Warp &w, const ShadowOperand &operand) {
  if (!is_dirty(w, operand))
    return 0;
  Row row;
  take_shadow(w, operand, row);
  uint32_t lanes = 0;
  for (uint32_t l = 0; l < lanes_per_warp; ++l)
    lanes |= uint32_t{lane(row, operand, l) != 0} << l;
  return lanes;
}

void put(Warp &w, const ShadowOperand &result, const Row &bits, uint32_t lanes, uint8_t how,
         const ShadowOrigin &from) {
  if (result.offset == no_offset)
    return;
  bool any = false;
  for (uint32_t rest = lanes; rest && !any; rest &= rest - 1)
    any = lane(bits, result, first_lane(rest)) != 0;
  uint8_t now = state(w, result);
  if (!any && now == 0)
    return;
  Row row;
  take_shadow(w, result, row);
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    set_lane(row, result, first_lane(rest), lane(bits, result, first_lane(rest)));
  std::memcpy(w.shadow->registers + result.offset, row.bytes, row_bytes(result));
  const bool whole = lanes == w.existing;
  if (any) {
    if (now == 0 || whole)
      now = 0;
    now |= static_cast<uint8_t>(Shadow::is_undefined | how);
    origin(w, result) = from;
  } else if (whole ||
             std::all_of(row.bytes, row.bytes + row_bytes(result), [](uint8_t b) { return b == 0; })) {
    now = 0;
  }
  w.shadow->set_state(result.offset, now);
}

void clear(Warp &w, const ShadowOperand &result, uint32_t lanes) {
  if (!is_dirty(w, result))
    return;
  Row none = {};
  put(w, result, none, lanes, 0, {});
}

} // namespace emulator::undefined
