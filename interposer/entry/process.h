// What a capture says of the process and its driver, and the contexts that the application makes and ends.
#pragma once

#include "call/call.h"

void describe_process(uint32_t forked_from);
void describe_driver(void);
void note_contexts(const struct call *call);
uint64_t context_that_ends(const struct call *call);
void reset_contexts_after_fork(void);
