// The one path that every recorded call takes.
#pragma once

#include "record/call.h"

void begin_call(struct call *call, struct thread *thread, unsigned slot, const uint64_t *arguments);
void end_call(struct call *call, int result);
void note_uncaptured(unsigned slot);
