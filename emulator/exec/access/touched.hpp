// Notes what memory instructions touch, in launches that ask for it (LaunchRequest::record_touched).
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// Of one lane.
void note_touched(Warp &w, const Instruction *i, uint64_t address, uint64_t bytes, bool write);
// Of all lanes, once they are counted: also what the access cost. addresses: of those that are far apart,
// else nullptr. An atomic operation reads and writes.
void note_reach(Warp &w, const Instruction *i, const Reach &reach, const uint64_t *addresses, uint32_t bytes,
                AccessKind kind);
void add(Touched &to, const Touched &more);

} // namespace emulator
