// What of calls only the readers of their arguments know.
#pragma once

#include "record/call.h"

void custom_enter(struct call *call);
void custom_leave(struct call *call, int result);
void pack_launch_parameters(struct call *call);
// The parameter buffer that `extra` of a launch names, and its length; NULL when there is none, or a longer
// one than a kernel can take.
const void *extra_buffer(const uint64_t *words, uint64_t *bytes);
void launch_is_described(const struct call *call); // its ENTER is on file
// Address ranges that a copy whose effect is CUSTOM may touch; count 0 to 2.
struct span {
  uint64_t address, bytes;
};
unsigned copy_spans(const struct call *call, struct span spans[2]);
// The span of that number that a batch may touch; its address is 0 where there is nothing to touch. False: no
// more.
bool batch_span(const struct call *call, uint64_t number, struct span *span);

// Launches by cuLaunch and its like, and what their functions were told before.
bool is_old_launch(const struct call *call);
void note_old_launch(const struct call *call); // after a successful call
void old_launch_geometry(const struct call *call, uint32_t geometry[7]);
