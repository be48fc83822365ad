// Whether the device still works.
#pragma once

#include "memory/memory.h"
#include "record/call.h"

void note_streams(const struct call *call);
bool device_becomes_idle(const struct range_list *list, const char **problem);
extern const char context_has_ended[]; // a problem that nobody need hear of when there is nothing to read
void note_device_error(const char *problem, enum moment moment,
                       uint64_t call); // if it is one; the gate is closed
bool device_is_idle(void);             // of the current context, asked and not waited for
