// Notes what memory instructions touch, in launches that ask for it (LaunchRequest::record_touched).
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// Before the access of a lane.
void note_touched(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes, bool write);
// Of all lanes, once they are counted: also what the access cost. addresses: of those that are far apart,
// else nullptr. An atomic operation reads and writes.
void note_reach(Warp &w, const Instruction *i, const Reach &reach, const uint64_t *addresses, uint32_t bytes,
                AccessKind kind);
void add(Touched &to, const Touched &more);
void add(TouchedSites &to, const TouchedSites &more);

} // namespace emulator
