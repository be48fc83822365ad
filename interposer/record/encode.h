// Attachments, and the records of calls that hold them.
#pragma once

#include "record/call.h"
#include "record/writer.h"

uint64_t term_value(const struct call *call, const struct term *term);
void attach(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
// The same for bytes that are in a file; `reference` says where (FORMAT.md).
bool attach_place(struct call *call, unsigned parameter, unsigned part, const void *reference,
                  uint32_t reference_bytes, uint64_t length, uint32_t check);
// The same for bytes that end before the record is written.
void attach_copy(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
// The same for memory that may turn out not to be readable: nothing is attached then.
bool attach_unsafe(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
void *take_scratch(struct call *call, size_t bytes); // NULL when there is no room left

void attach_inputs(struct call *call);              // what the roles of the parameters say
void attach_outputs(struct call *call, int result); // likewise; those of ENTER are on file by then
bool encode_enter(struct call *call);               // false: it was not written
void encode_leave(const struct call *call, int result);

// For records of calls that the shim makes up or has kept.
bool set_bytes(struct attachment *item, const void *data, uint64_t length); // false: capture has stopped
size_t attachment_bytes(const struct attachment *item);                     // in a record
void put_attachment(struct record *record, const struct attachment *item);
