// What an instruction stores, and how small the accesses of a program are.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// Log 2 of the bytes that the program's smallest access to this space, or to any, may touch: at most 16.
uint32_t smallest_access_bits(const Program &program, ptx::Space space);
// The bytes that a lane stores, from `skipped` of them on: at most 16.
void stored(const Warp &warp, const Instruction *i, uint32_t lane, uint32_t skipped, uint32_t bytes,
            uint8_t *to);
// Whether a lane stores at `address` what `bytes` bytes at `place`, which it covers, hold already.
bool stores_what_is_there(const Warp &warp, const Instruction *i, uint32_t lane, uint64_t address,
                          uint64_t place, uint32_t bytes);
// Before the access of a lane: what is in memory, and what it will store where that is known.
void note_values(FoundExample &to, const Warp &warp, const Instruction *i, uint32_t lane, uint64_t address,
                 uint32_t bytes, AccessKind kind);

} // namespace emulator
