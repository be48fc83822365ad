// What the host writes between two calls.
#pragma once

#include "memory/memory.h"
#include "record/call.h"

void host_contents_were_read(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                             enum moment moment, uint64_t call);
bool host_writes_matter(void); // before a call that may read host memory
void look_for_host_writes(struct call *call, struct range_list *reached, bool follow);
void look_before_wait(struct call *call); // ENTER of such a call
void look_before_end(uint64_t call);      // before memory is read for the last time; the gate is closed
void look_after_wait(struct call *call);  // LEAVE of a call that may have waited for the device
void device_may_write_host_memory(void);
void forget_host_contents(void);
