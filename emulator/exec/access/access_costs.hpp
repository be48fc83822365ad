// Adds up what memory instructions cost, line by line, in launches that ask for it
// (LaunchRequest::record_costs).
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// Before an access is counted, and after.
void begin_cost(Warp &w, AccessKind kind);
void end_cost(Warp &w, const Instruction *i, AccessKind kind);

// What a worker noted, under the lines of its program.
AccessCosts costs_of(const Worker &worker);
void add(AccessCosts &to, const AccessCosts &more);

// Those with most sectors and wavefronts, at most `most_accesses`, the dearest first.
constexpr size_t most_accesses = 64;
std::vector<NamedAccess> dearest(const AccessCosts &costs, const ptx::Module &module);

} // namespace emulator
