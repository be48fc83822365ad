// Which bits of a warp's registers and of its block's memory nothing has written, or were made of such: those
// are 1. Only where a launch looks for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "exec/interface/global_shadow.hpp"
#include "exec/warp/reach.hpp"

namespace emulator {

// Of one stretch of memory, byte by byte beside it.
struct ShadowSpace {
  uint64_t base = 0, bytes = 0;
  uint8_t *bits = nullptr;
  const char *name = "";
};

class MemoryMap;

struct ShadowMemory {
  ShadowSpace shared, local;
  GlobalShadow *global = nullptr;
  const MemoryMap *map = nullptr; // says where in global memory undefined bits are kept

  // The bits of [address, address + bytes) of the block's own memory, or nullptr.
  uint8_t *own(uint64_t address, uint64_t bytes) const {
    for (const ShadowSpace *space : {&shared, &local})
      if (address - space->base < space->bytes && bytes <= space->bytes - (address - space->base))
        return space->bits + (address - space->base);
    return nullptr;
  }
  // Of one access, of any memory; nullptr: all of it counts as written.
  const uint8_t *at(uint64_t address, uint64_t bytes) const {
    const uint8_t *bits = own(address, bytes);
    return bits ? bits : global->at(address);
  }
  // Whether a bit of the stretch may be undefined.
  bool may_be_undefined(uint64_t address, uint64_t bytes) const;
  // Of one access.
  void put(uint64_t address, const void *bits, uint32_t bytes) const;
  void written(uint64_t address, uint64_t bytes) const {
    if (uint8_t *bits = own(address, bytes))
      std::memset(bits, 0, bytes);
    else
      global->written(address, bytes);
  }
  void copy(uint64_t from, uint64_t to, uint64_t bytes) const;
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
  uint32_t dirty = 0;              // rows whose state is not 0
  bool one_by_one = false;         // an instruction is not to go on with the next one by itself
  // The last access of the warp, once it was noted.
  bool is_noted = false;
  uint32_t lanes = 0;
  uint64_t lowest = 0, span = 0;
  uint64_t addresses[32] = {};

  void set_state(uint32_t offset, uint8_t value) {
    uint8_t &now = state[offset / 4];
    dirty += uint32_t{value != 0} - uint32_t{now != 0};
    now = value;
  }
};

} // namespace emulator
