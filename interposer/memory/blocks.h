// Blocks of allocations, as an allocator inside the application tells.
#pragma once

#include "memory/memory.h"

bool memory_find_allocation(uint64_t address, struct range *found);
void memory_block_lives(uint64_t address, uint64_t bytes);
void memory_block_ends(uint64_t address);
bool memory_has_blocks(void);
void memory_cover(uint64_t address, uint64_t bytes); // a call names this memory: it counts as a block
// Words that point between blocks: the stretch around each counts as a block. Returns whether there are any.
bool memory_cover_targets(const void *data, size_t bytes, bool only_ask);
