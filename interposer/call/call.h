// The one path that every recorded call takes, and the process from its first call to its end.
#pragma once

#include "record/call.h"

void begin_call(struct call *call, struct thread *thread, unsigned slot, const uint64_t *arguments);
void end_call(struct call *call, int result);
void note_uncaptured(unsigned slot);

// ---- what a call changes of memory and objects --------------------------------------------------

void follow_effects(const struct call *call); // after a successful one

// ---- what of single functions neither roles nor effects say: their rows in the table name who follows it

void row_enter(struct call *call);
void row_leave(struct call *call, int result);

// ---- the process under capture ------------------------------------------------------------------

void initialise(void); // at the first driver call

// At-exit handlers run in the opposite order of their registration. This is called again whenever the driver
// may have registered one, so that the last contents are read before the driver takes itself down.
void register_process_end(void);
bool is_first_success(void); // true once: for the first driver call that succeeds in this process
