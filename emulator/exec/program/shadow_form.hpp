// What an instruction does with bits that nothing has written (exec/check/undefined).
#pragma once

#include <cstdint>

namespace emulator {

struct Warp;
struct Instruction;

enum class ShadowKind : uint8_t {
  clear,   // its results count as written
  any,     // a result is undefined where any of its sources is
  carry,   // sums and products: from the lowest undefined bit on
  bits,    // each bit of the result of the bits beside it, as the operation says
  moved,   // bits of its data change their places
  equal,   // a comparison that one bit decides
  ordered, // a comparison of integers
  across,  // lanes read each other's sources
  load,
  store,
  atomic,
  exchange,
  branch, // its guard, or the index of a table
};

// Of sources and results together, of what is followed.
constexpr uint32_t most_shadow_operands = 16;

struct ShadowOperand {
  uint32_t offset = UINT32_MAX; // of the row; UINT32_MAX: none
  uint8_t lane_bytes = 0;       // 0: a predicate
};

struct ShadowForm {
  // Its own handlers: without its guard, and with it.
  const Instruction *(*handler)(Warp &, const Instruction *) = nullptr;
  const Instruction *(*guarded)(Warp &, const Instruction *) = nullptr;
  ShadowKind kind = ShadowKind::clear;
  uint8_t part_bits = 0;     // of `any`: results of so many bits, each of its own; 0: of a whole lane
  bool joins_halves = false; // of `any`: the first source is the upper half, the second the lower
  bool is_signed = false;    // of `ordered`, and of a load that extends a sign
  bool is_repeated_after =
      false;        // of `bits` and `moved`: it may wait for lanes, and goes on with all of them
  uint8_t data = 0; // of `moved`: bit n of source n whose bits move
  uint8_t sources = 0, results = 0;
  uint32_t first = 0; // in Program::shadow_operands: guard, address, sources, results
};

// How a form is treated, as far as its name says.
struct ShadowRule {
  ShadowKind kind = ShadowKind::clear;
  uint8_t part_bits = 0, data = 0;
  bool joins_halves = false, is_signed = false, is_repeated_after = false;
};

} // namespace emulator
