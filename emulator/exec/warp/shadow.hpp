// Which bits of a warp's registers and of its block's memory nothing has written, or were made of such: those
// are 1. Only where a launch looks for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace emulator {

// Of one stretch of memory, byte by byte beside it.
struct ShadowSpace {
  uint64_t base = 0, bytes = 0;
  uint8_t *bits = nullptr;
  const char *name = "";
};

struct ShadowMemory {
  ShadowSpace shared, local;

  // The bits of [address, address + bytes), or nullptr for memory that is not followed.
  uint8_t *at(uint64_t address, uint64_t bytes) const {
    for (const ShadowSpace *space : {&shared, &local})
      if (address - space->base < space->bytes && bytes <= space->bytes - (address - space->base))
        return space->bits + (address - space->base);
    return nullptr;
  }
  void written(uint64_t address, uint64_t bytes) const {
    if (uint8_t *bits = at(address, bytes))
      std::memset(bits, 0, bytes);
  }
  void copy(uint64_t from, uint64_t to, uint64_t bytes) const {
    const uint8_t *source = at(from, bytes);
    uint8_t *target = at(to, bytes);
    if (source && target)
      std::memcpy(target, source, bytes);
  }
};

// Where undefined bits of a register come from.
struct ShadowOrigin {
  static constexpr uint32_t none = UINT32_MAX; // a register that nothing has written
  uint32_t instruction = none;                 // that read them
  uint32_t bytes = 0;
  const char *space = "";
  uint64_t offset = 0; // in the space, of local memory in that of the thread
};

struct Shadow {
  enum State : uint8_t { is_undefined = 1, is_computed = 2 };

  ShadowMemory *memory = nullptr;  // of the block
  uint8_t *registers = nullptr;    // beside Warp::registers: valid in rows whose state is not 0
  uint8_t *state = nullptr;        // of the row at offset: [offset / 4]
  ShadowOrigin *origins = nullptr; // likewise
  // The last access of the warp.
  uint32_t lanes = 0, bytes = 0;
  uint64_t addresses[32] = {};
};

} // namespace emulator
