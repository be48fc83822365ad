// One call on its way, and what a record of it holds besides its arguments.
#pragma once

#include "base/state.h"
#include "base/thread.h"
#include "driver/table.h"

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
  struct module *loading; // the module that the call is about to load (objects/modules.c)
  uint32_t matched, selected_launches; // launches in it that match, and that are selected
  struct description *description;     // GRAPH: graph/description.h
  struct attachment *attachments;      // in scratch
};

static inline void number_call(struct call *call) { // if it has no number yet
  if (call->number == 0)
    call->number = next_call_number();
}

// What was prepared for one window is never recorded in another: the writer sees to it.
static inline bool belongs_to_window(const struct call *call) {
  return call->inside && call->function->keep == KEEP_WINDOW;
}
