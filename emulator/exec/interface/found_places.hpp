// Findings of a launch that still runs, under the places of their two instructions in the program.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "exec/interface/findings.hpp"

namespace emulator {

// Check, kind, first and second instruction as indices into the program's code, same value, one warp.
using FoundKey = std::tuple<Check, FindingKind, uint32_t, uint32_t, bool, bool>;

struct FoundExample {
  uint64_t block = 0; // linear
  uint32_t first_thread = 0, second_thread = 0;
  const char *space = ""; // that was touched
  uint64_t offset = 0;    // in it
  uint32_t bytes = 0;
  uint64_t count = 0;
  uint64_t order = 0;      // of numbers: which came first of those in one block
  uint64_t values[5] = {}; // of numbers: result and operands, as Program::watched says; of a race: what is
                           // in memory, and what is written
  uint8_t value_bytes = 0, new_value_bytes = 0; // of a race: how many of these, at most 8; 0: not known
  uint64_t first_block = UINT64_MAX;            // of the first side, where it is another
  // Of a race whose first side reads: who wrote what it read.
  uint32_t writer_instruction = UINT32_MAX, writer_thread = 0;
  uint64_t writer_block = 0;
};

using FoundPlaces = std::map<FoundKey, FoundExample>;

} // namespace emulator
