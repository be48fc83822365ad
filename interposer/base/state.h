// What the whole process is in: the mode of the capture, its numbers, what it did to the application, and the
// threads that call the driver.
#pragma once

#include "base/base.h"

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
extern atomic_bool memory_is_shared;   // others may write it, with no call that is seen

// What capture did to the application, beside recording calls; replay/raw/FORMAT.md has the names.
#define PERTURBATION(each)                                                                                   \
  each(waits) each(wait_ns)            /* for the device to become idle */                                   \
      each(copied_bytes) each(copy_ns) /* to the host; hashing and writing are part of the time */           \
      each(asked_ns)                   /* for the variables of modules */                                    \
      each(launches_matched)           /* by the selection; no window holds those of the next three */       \
      each(outside_selection)          /* of --launch and its like */                                        \
      each(busy_threads)               /* their window could not be had */                                   \
      each(after_end)                  /* the selection was complete, or the capture had stopped */          \
      each(in_stream_capture)          /* not matched: they ran as nodes of graphs, if at all */
struct perturbation {
#define COUNTER(name) _Atomic uint64_t name;
  PERTURBATION(COUNTER)
#undef COUNTER
};
extern struct perturbation perturbation;

// What capture takes of the memory of the process while it watches: with `--memory SIZE` never more than
// that. False: so much is not left; it is counted, and who asked does without.
extern struct rooms {
  _Atomic uint64_t taken, refused;
} rooms;
bool take_room(uint64_t bytes);
void give_room(uint64_t bytes);
void *room_for(size_t bytes); // zeros, on the heap; NULL: no room, or no memory

// ---- threads ------------------------------------------------------------------------------------

enum { SCRATCH_BYTES = 128 * 1024 };

struct known_word { // memory/reach.c
  uint64_t word, state;
};
enum { KNOWN_WORDS = 256 };
struct open_range; // objects/ranges.h

// One per thread that has called the driver; never freed, handed on when its thread ends. What every call
// writes has a line of the cache to itself.
enum { ALL_INSIDE = 1 << 16 };
struct thread {
  struct thread *next;
  atomic_bool taken;
  // Calls of this thread inside the driver that may touch memory; times ALL_INSIDE: all there were.
  _Atomic uint64_t inside;
  unsigned depth;   // above 0: a call made by the driver or by the shim itself; passes through
  uint32_t id;      // kernel thread id
  uint64_t origin;  // of its last recorded launch: the window and the stack, and 1 (objects/origins.c)
  uint8_t *scratch; // SCRATCH_BYTES, or NULL until a call is recorded
  struct open_range *ranges; // of NVTX; NULL until the first one
  unsigned ranges_open;
  struct known_word known[KNOWN_WORDS];
};

extern _Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));
struct thread *register_thread(void);
bool thread_has_scratch(struct thread *thread);

static inline struct thread *current_thread(void) {
  struct thread *thread = this_thread;
  return LIKELY(thread != NULL) ? thread : register_thread();
}

// What this thread asks of the driver, to the end of the block, is not the application's.
#define UNSEEN struct thread *const unseen __attribute__((cleanup(end_unseen))) = begin_unseen()
static inline struct thread *begin_unseen(void) {
  struct thread *thread = current_thread();
  thread->depth++;
  return thread;
}
static inline void end_unseen(struct thread *const *thread) { (*thread)->depth--; }

extern _Atomic(struct thread *) threads; // the last one that was made; the others follow it
