// mbarrier objects: 64 bits in shared memory, of our own layout, which programs do not look into.
#pragma once

#include <string>

#include "exec/warp/warp.hpp"

namespace emulator {

namespace mbarrier {

// Operands are in Program::extra from Instruction::extra on: a row of generic addresses first, no_offset
// for what is left out.
const Instruction *initialise(Warp &w, const Instruction *i); // count
const Instruction *invalidate(Warp &w, const Instruction *i);
// count or none, bytes to expect or none; immediate: Arrival bits; destination: the state before, or none
const Instruction *arrive(Warp &w, const Instruction *i);
const Instruction *expect_bytes(Warp &w, const Instruction *i); // bytes; immediate: 1 adds, -1 takes away
// a state, or a parity when the immediate says so; destination: predicate
const Instruction *test_wait(Warp &w, const Instruction *i);
const Instruction *try_wait(Warp &w, const Instruction *i); // likewise, and the group stops until it is true

enum Arrival : int64_t { drops = 1, completes_nothing = 2 };

// `bytes` of an asynchronous copy have come, for lane `lane` of the warp.
void complete_bytes(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint64_t bytes);

// One more arrival to come in this phase; one arrival. For lane `lane` of the warp.
void add_arrival(Warp &w, const Instruction *i, uint32_t lane, uint64_t address);
void arrive_once(Warp &w, const Instruction *i, uint32_t lane, uint64_t address);

// Arrivals that are still missing are in the low bits of a state.
constexpr uint64_t pending_mask = 0xfffff;

} // namespace mbarrier

} // namespace emulator
