// What the whole process is in: the mode of the capture, its numbers, and what it did to the application.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum mode {
  MODE_UNKNOWN, // before the first driver call
  MODE_INERT,   // capture was not asked for
  MODE_CLOSED,  // no window: only calls marked ALWAYS are recorded
  MODE_OPEN,    // everything is recorded
  MODE_DONE,    // the selection is complete, or capture has stopped
};
extern atomic_int mode;

static inline int current_mode(void) { return atomic_load_explicit(&mode, memory_order_relaxed); }

uint64_t next_call_number(void);
uint64_t last_call_number(void);
extern _Atomic uint32_t window_number; // of the present window, or of the last one
extern atomic_int captures_under_way;  // of streams

// What capture did to the application, beside recording calls.
struct perturbation {
  _Atomic uint64_t waits, wait_ns;        // for the device to become idle
  _Atomic uint64_t copied_bytes, copy_ns; // to the host; hashing and writing are part of the time
  _Atomic uint64_t hashed_bytes;          // on the device, instead of being copied
  _Atomic uint64_t asked_ns;              // for the variables of modules
  // Launches that match the selection, and of these the ones that no window holds.
  _Atomic uint64_t launches_matched;
  _Atomic uint64_t outside_selection; // of --launch and its like
  _Atomic uint64_t busy_threads;      // their window could not be had
  _Atomic uint64_t after_end;         // the selection was complete, or the capture had stopped
  _Atomic uint64_t in_stream_capture; // not part of launches_matched: they ran as nodes of graphs, if at all
};
extern struct perturbation perturbation;
