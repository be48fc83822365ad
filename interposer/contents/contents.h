// Copies of the contents of memory.
#pragma once

#include "generated/vocabulary.h"
#include "memory/memory.h"

#include <stdatomic.h>

// Reads the contents of all ranges of the list into the blobs file; scans what it reads for pointers and
// appends what they reach when `follow`. The gate is closed.
void copy_contents(struct range_list *list, enum moment moment, uint64_t call, bool follow);

extern atomic_bool host_memory_is_pending; // work may be under way that writes pinned or managed memory
