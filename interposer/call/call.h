// One call on its way: what of it is recorded (encode.c, image.c, stream_capture.c), and the exceptions to
// the generic path (custom/).
#pragma once

#include "base/bytes.h"
#include "base/privacy.h"
#include "base/selection.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "memory/gate.h"

struct attachment {
  uint16_t parameter;
  uint8_t part;
  uint8_t storage;
  uint32_t check;
  uint64_t length;
  const void *data;         // STORAGE_INLINE; STORAGE_FILE: the reference
  uint64_t offset;          // STORAGE_BLOB
  uint32_t reference_bytes; // STORAGE_FILE
  const void *mapped;       // STORAGE_FILE: where it is in this process
};

enum { MAX_ATTACHMENTS = 64, INLINE_BYTES = 4096 };

struct kernel;
struct module;
struct description;

struct call {
  const struct function *function;
  const uint64_t *arguments;
  struct thread *thread;
  struct kernel *kernel; // LAUNCH
  const uint8_t *packed; // LAUNCH: the parameter buffer, in scratch; NULL: unknown
  uint32_t packed_bytes;
  uint32_t attachment_count;
  uint32_t scratch_used;
  uint32_t serial;         // FREE and its like: which range was found
  uint64_t number;         // 0: not recorded, or not numbered yet
  uint64_t ordinal;        // LAUNCH: number among the launches that the selection matches, 0: not matched
  uint64_t ending_context; // END_OF_CONTEXT: the context whose memory ends, 0 when none does
  uint64_t ending_array;   // DESTROY: the address of the array's range, 0 when none ends
  uint16_t record_function;
  bool nested, inside;
  bool waits_for_window;  // GRAPH: it is recorded when the next window opens
  bool is_busy;           // what a window has of it could not be recorded: other threads were in the way
  uint32_t opened;        // LAUNCH: the window that it opened, 0 for none
  bool in_capture;        // the call goes into a stream capture: nothing runs
  uint64_t stream;        // LAUNCH that is timed
  struct timing *timing;  // LAUNCH: its events; NULL when it is not timed
  uint32_t window;        // LAUNCH that is recorded: the window it belongs to
  bool selected;          // LAUNCH: the window stays open until it has left the driver
  struct module *loading; // the module that the call is about to load (variables.c)
  uint32_t matched, selected_launches; // launches in it that match, and that are selected
  struct description *description;     // GRAPH: graph/description.h
  struct attachment *attachments;      // in scratch
};

void begin_call(struct call *call, struct thread *thread, unsigned slot, const uint64_t *arguments);
void end_call(struct call *call, int result);
void note_uncaptured(unsigned slot);
void number_call(struct call *call); // if it has no number yet

// Whether a call goes into a stream capture that is under way (stream_capture.c).
bool goes_into_capture(const struct call *call);
uint64_t stream_of_call(const struct call *call);

// ---- attachments (encode.c, image.c) ------------------------------------------------------------

uint64_t term_value(const struct call *call, const struct term *term);
void attach(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
// The same for bytes that stand in a file; `reference` says where (FORMAT.md).
bool attach_place(struct call *call, unsigned parameter, unsigned part, const void *reference,
                  uint32_t reference_bytes, uint64_t length, uint32_t check);
// The same for bytes that end before the record is written.
void attach_copy(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
// The same for memory that may turn out not to be readable: nothing is attached then.
bool attach_unsafe(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
void *take_scratch(struct call *call, size_t bytes); // NULL when there is no room left
bool belongs_to_window(const struct call *call);
bool encode_enter(struct call *call); // false: it was not written
void encode_leave(struct call *call, int result);

// Attaches a module image of any form as part 0, and the prelinked containers of relocatable code as further
// parts.
void attach_image(struct call *call, unsigned parameter, const void *image);
// Whether the image of a file that was unmapped or changed since is in memory as it was.
bool image_is_still_there(const void *image, uint64_t bytes, uint32_t check);

// ---- the exceptions (custom/) -------------------------------------------------------------------

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
