// Special registers that instructions read as rows.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// Whether the value is not the same in all blocks of a launch; then it is the same in all lanes.
bool changes_with_block(Special special);

uint64_t special_value(const Warp &warp, uint64_t block_index, uint32_t lane, Special special);

} // namespace emulator
