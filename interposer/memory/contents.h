// Reading the contents of ranges: before a call may touch them (touch.c), as one copy (contents.c), and what
// the host writes with no call of the driver.
#pragma once

#include "memory/memory.h"

void prepare_memory(struct call *call); // copies what the call may touch for the first time, or what it ends

// Reads the contents of all ranges of the list into the blobs file; scans what it reads for pointers and
// appends what they reach when `follow`. The gate is closed.
void copy_contents(struct range_list *list, enum moment moment, uint64_t call, bool follow);

// One piece of a range, in memory that the next one overwrites; NULL, with the driver's answer, when it
// cannot be read. The gate is closed and the device idle, or the range is pinned memory.
enum { PIECE_BYTES = 8 << 20 };
const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result);
void write_contents(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                    enum moment moment, uint64_t call);
void write_span(const struct range *range, uint64_t offset, uint64_t bytes, enum moment moment, uint64_t call,
                uint64_t blob, uint32_t check); // the record alone; blob: UINT64_MAX for no contents
// The same, as the host sees it now: no call of the driver is made, which might wait.
const uint8_t *read_while_device_works(const struct range *range, uint64_t offset, size_t bytes);
bool push_context_of(const struct range *range); // true: pop_context has to follow

extern atomic_bool host_memory_is_pending; // work may be under way that writes pinned or managed memory

// ---- what the host writes between two calls (host_writes.c) -------------------------------------

void host_contents_were_read(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                             enum moment moment, uint64_t call);
bool host_writes_matter(void); // before a call that may read host memory
void look_for_host_writes(struct call *call, struct range_list *reached, bool follow);
void look_before_wait(struct call *call); // ENTER of such a call
void look_before_end(uint64_t call);      // before memory is read for the last time; the gate is closed
void look_after_wait(struct call *call);  // LEAVE of a call that may have waited for the device
void device_may_write_host_memory(void);
void forget_host_contents(void);

// ---- whether the device still works (idle.c) ----------------------------------------------------

void note_streams(const struct call *call);
bool device_becomes_idle(const struct range_list *list, const char **problem);
extern const char context_has_ended[]; // a problem that nobody need hear of when there is nothing to read
void note_device_error(const char *problem, enum moment moment,
                       uint64_t call); // if it is one; the gate is closed
bool device_is_idle(void);             // of the current context, asked and not waited for
void reset_streams_after_fork(void);
