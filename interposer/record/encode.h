// Attachments, and the records of calls that hold them.
#pragma once

#include "record/call.h"
#include "record/writer.h"

uint64_t term_value(const struct call *call, const struct term *term);
void attach(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
struct attachment *add_attachment(struct call *call, struct attachment item); // NULL: there are too many
// The same for bytes that end before the record is written, and for memory that may turn out not to be
// readable: nothing is attached then.
bool attach_unsafe(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
void *take_scratch(struct call *call, size_t bytes); // NULL when there is no room left

void attach_inputs(struct call *call);              // what the roles of the parameters say
void attach_outputs(struct call *call, int result); // likewise; those of ENTER are on file by then
bool encode_enter(const struct call *call);         // false: it was not written
void encode_leave(const struct call *call, int result);

// A call that the shim makes up or has kept, which succeeded, as a new one; one attachment each, or NULL.
void record_made_call(const struct function *function, uint16_t record_function, const uint64_t *arguments,
                      struct attachment *entered, struct attachment *left);
bool set_bytes(struct attachment *item, const void *data, uint64_t length); // false: capture has stopped

// ---- module images ------------------------------------------------------------------------------

// Attaches a module image of any form as part 0, and the prelinked containers of relocatable code after it.
void attach_image(struct call *call, unsigned parameter, const void *image);
