#include "exec/check/stored.hpp"

#include <algorithm>
#include <cstring>

namespace emulator {

uint32_t smallest_access_bits(const Program &program, ptx::Space space) {
  uint32_t least = 16;
  for (const Instruction &i : program.code) {
    if (i.element_bytes == 0 || (i.space != space && i.space != ptx::Space::generic))
      continue;
    least = std::min<uint32_t>(least, i.element_bytes * std::max<uint32_t>(i.extra_count, 1));
  }
  return first_lane(least);
}

void stored(const Warp &w, const Instruction *i, uint32_t lane, uint32_t skipped, uint32_t bytes,
            uint8_t *to) {
  const uint32_t *rows = i->extra_count <= 1 ? &i->b : w.program->extra.data() + i->extra;
  for (uint32_t b = 0; b < bytes; ++b) {
    uint32_t element = (skipped + b) / i->element_bytes;
    to[b] = w.registers[rows[element] + lane * i->lane_bytes + (skipped + b) % i->element_bytes];
  }
}

void note_values(FoundExample &to, const Warp &w, const Instruction *i, uint32_t lane, uint64_t address,
                 uint32_t bytes, AccessKind kind) {
  to.value_bytes = static_cast<uint8_t>(std::min(bytes, 8u));
  std::memcpy(&to.values[0], reinterpret_cast<const void *>(address), to.value_bytes);
  if (kind != AccessKind::store || i->lane_bytes == 0)
    return;
  uint8_t now[8] = {};
  to.new_value_bytes = to.value_bytes;
  stored(w, i, lane, 0, to.new_value_bytes, now);
  std::memcpy(&to.values[1], now, sizeof now);
}

bool stores_what_is_there(const Warp &w, const Instruction *i, uint32_t lane, uint64_t address,
                          uint64_t place, uint32_t bytes) {
  // Part of the place may belong to what is beside it.
  if (i->lane_bytes == 0 || place < address ||
      place + bytes > address + uint64_t{i->element_bytes} * std::max<uint32_t>(i->extra_count, 1))
    return false;
  uint8_t now[16];
  stored(w, i, lane, static_cast<uint32_t>(place - address), bytes, now);
  return std::memcmp(now, reinterpret_cast<const void *>(place), bytes) == 0;
}

} // namespace emulator
