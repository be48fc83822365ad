// The process under capture: its beginning and end (lifetime.c), what a capture says of it and its driver,
// and the contexts that it makes and ends (process.c).
#pragma once

#include "call/call.h"

void initialise(void); // at the first driver call

// At-exit handlers run in the opposite order of their registration. This is called again whenever the driver
// may have registered one, so that the last contents are read before the driver takes itself down.
void register_process_end(void);
bool is_first_success(void); // true once: for the first driver call that succeeds in this process

void describe_process(uint32_t forked_from);
void describe_driver(void);
void note_contexts(const struct call *call);
uint64_t context_that_ends(const struct call *call);
void reset_contexts_after_fork(void);
