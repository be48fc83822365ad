// Contents, piece by piece.
#pragma once

#include "contents/copy.h"

// One piece of a range, in memory that the next one overwrites; NULL, with the driver's answer, when it
// cannot be read. The gate is closed and the device idle, or the range is pinned memory.
const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result);
void write_contents(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                    enum moment moment, uint64_t call);
void write_span(const struct range *range, uint64_t offset, uint64_t bytes, enum moment moment, uint64_t call,
                uint64_t blob, uint32_t check); // the record alone; blob: UINT64_MAX for no contents
// The same, as the host sees it now: no call of the driver is made, which might wait.
const uint8_t *read_while_device_works(const struct range *range, uint64_t offset, size_t bytes);
bool push_context_of(const struct range *range); // true: pop_context has to follow

// One is read, one hashed, one written; used by the thread that closed the gate, and by those that it has
// started.
enum { PIECES = 3 };
extern struct piece pieces[PIECES];
bool has_room(struct piece *piece); // for its data; false: there is no memory
int read_piece(const struct range *range, uint64_t address, size_t bytes, uint8_t *to); // CUresult
