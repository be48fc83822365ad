// The primary contexts of the devices, and the ends of contexts.
#pragma once

#include "record/call.h"

void note_contexts(const struct call *call); // after a successful call
// The one whose memory ends with this END_OF_CONTEXT; 0: none.
uint64_t context_that_ends(const struct call *call);
