// One call on its way, and what a record of it holds besides its arguments.
#pragma once

#include "base/state.h"
#include "driver/table.h"

struct attachment {
  uint16_t parameter;
  uint8_t part;
  uint8_t storage;
  uint32_t check;
  uint64_t length;
  const void *data; // STORAGE_INLINE: the bytes; STORAGE_FILE: the reference; STORAGE_BLOB: `offset`
  uint32_t data_bytes;
  uint64_t offset; // STORAGE_BLOB
};

enum { MAX_ATTACHMENTS = 56, INLINE_BYTES = 4096 }; // a record of all has room in a half (record/writer.c)

struct kernel;
struct module;
struct description;

// A call on its way from a wrapper into the driver and back. It is on the stack of the thread that makes it,
// and no other thread sees it: no lock guards its fields. begin_call makes it, all zero but for what it
// names; who sets a field later is said here, in the order of the way. What they point to has locks.
struct call {
  // begin_call. Where `nested` is set, nothing else is: the driver or the shim itself made the call.
  struct thread *thread;
  const struct function *function;
  const uint64_t *arguments;
  uint16_t record_function; // with IN_CAPTURE_BIT once `in_capture` is known
  bool nested;

  // What it is, in begin_call before the gate; the same for all windows that it may come to.
  bool in_capture;                 // it goes into a stream capture: nothing runs
  struct description *description; // GRAPH: graph/description.h; follow_graph_call frees it, or hands it on
  struct kernel *kernel;           // LAUNCH: select_launch, or in a capture begin_call; never NULL there
  uint64_t ordinal;                // select_launch: number among the launches that match, 0: it does not
  uint32_t matched, selected_launches; // likewise: launches in it that match, and that are selected
  bool selected;                       // likewise: the window stays open until it has left the driver
  uint32_t opened;                     // open_window_for: the window that it opened, 0: none
  uint32_t origin;     // look_at_origin: number of its stack of frames and ranges, 0: not known
  bool is_from_source; // likewise: the selection asks for a line in it
  uint64_t flight;     // begin_flight: 0: it is recorded while it is made, or not at all
  uint64_t number;     // number_call; 0 after begin_call: it is not recorded

  // For one window: prepare_call, and again for each other window that has opened while the thread waited.
  uint32_t window;                // the window, or the one before it
  struct attachment *attachments; // in the thread's scratch, as is what they hold
  uint32_t attachment_count, scratch_used;
  const uint8_t *packed; // LAUNCH: pack_launch_parameters: the parameter buffer; NULL: unknown
  uint32_t packed_bytes;
  uint32_t serial;         // FREE and its like: which range was found
  uint64_t ending_context; // END_OF_CONTEXT: the context whose memory ends, 0 when none does
  uint64_t ending_array;   // DESTROY: the address of the array's range, 0 when none ends

  // Where it is. Of `inside` the thread's own count is the half that other threads see (contents/gate.c).
  bool inside;            // from the gate until it has left the driver
  bool is_busy;           // what a window has of it could not be recorded: other threads were in the way
  bool waits_for_window;  // GRAPH: it is recorded when the next window opens
  struct timing *timing;  // begin_timing: events around it; NULL when it is not timed
  int result;             // end_call: what the driver answered
  struct module *loading; // keep_image: the module that it is about to load; note_modules takes it over
};

// An argument as the pointer that it is, of the application or NULL.
static inline const void *pointer_argument(const struct call *call, unsigned position) {
  return (const void *)(uintptr_t)call->arguments[position];
}

// The handle that a successful call stored through its first argument; 0: the application passed NULL.
static inline uint64_t handle_given_out(const struct call *call) {
  uint64_t handle = 0;
  if (call->arguments[0] != 0)
    memcpy(&handle, pointer_argument(call, 0), sizeof handle);
  return handle;
}

static inline void number_call(struct call *call) { // if it has no number yet
  if (call->number == 0)
    call->number = next_call_number();
}

// What was prepared for one window is never recorded in another: the writer sees to it.
static inline bool belongs_to_window(const struct call *call) {
  return call->inside && call->function->keep == KEEP_WINDOW;
}
