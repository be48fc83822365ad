// The threads that call the driver, what mode the capture is in, and the gate that keeps them out while
// memory is looked at.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry/driver.h"

enum { SCRATCH_BYTES = 128 * 1024 };

struct known_word { // memory.c
  uint64_t word, state;
};
enum { KNOWN_WORDS = 256 };

// One per thread that has called the driver; never freed, handed on when its thread ends. What every call
// writes has a line of the cache to itself.
struct thread {
  struct thread *next;
  atomic_bool taken;
  atomic_uint inside; // calls of this thread inside the driver that may touch memory
  unsigned depth;     // above 0: a call made by the driver or by the shim itself; passes through
  uint32_t id;        // kernel thread id
  uint8_t *scratch;   // SCRATCH_BYTES, or NULL until a call is recorded
  struct known_word known[KNOWN_WORDS];
};

extern _Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));
struct thread *register_thread(void);
bool thread_has_scratch(struct thread *thread);

static inline struct thread *current_thread(void) {
  struct thread *thread = this_thread;
  return LIKELY(thread != NULL) ? thread : register_thread();
}

enum mode {
  MODE_UNKNOWN, // before the first driver call
  MODE_INERT,   // capture was not asked for
  MODE_CLOSED,  // no window: only calls marked ALWAYS are recorded
  MODE_OPEN,    // everything is recorded
  MODE_DONE,    // the selection is complete, or capture has stopped
};
extern atomic_int mode;

static inline int current_mode(void) { return atomic_load_explicit(&mode, memory_order_relaxed); }

// Counts a call as inside the driver. The order of `inside` and `mode` is what membarrier in close_gate
// relies on.
static inline void count_inside(struct thread *thread) {
  unsigned inside = atomic_load_explicit(&thread->inside, memory_order_relaxed);
  atomic_store_explicit(&thread->inside, inside + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void count_outside(struct thread *thread) {
  unsigned inside = atomic_load_explicit(&thread->inside, memory_order_relaxed);
  atomic_store_explicit(&thread->inside, inside - 1, memory_order_release);
}

// True when the call passes straight through; it is then counted as inside until leave_closed.
static inline bool enter_closed(struct thread *thread) {
  count_inside(thread);
  int now = current_mode();
  if (LIKELY(now == MODE_CLOSED || now == MODE_INERT || now == MODE_DONE) || thread->depth > 0)
    return true;
  count_outside(thread);
  return false;
}

static inline void leave_closed(struct thread *thread) { count_outside(thread); }

// Waits while the gate is closed by another thread, then counts as inside. False: it went past the closed
// gate, because who closed it has waited for the device for too long.
bool pass_gate(struct thread *thread);
// Makes this thread the only one that touches memory through the driver, as far as that can be had in bounded
// time. False: another thread kept the gate closed for too long.
bool close_gate(struct thread *thread, uint64_t call);
void open_gate(struct thread *thread);
void gate_is_waiting_for_device(bool waiting); // others wait a bounded time only while this holds
void prepare_gate(void);
void reset_gate_after_fork(void);
// A build for tests: threads lose time wherever another one may overtake them.
#ifdef LOSE_TIME
void lose_time(void);
#else
static inline void lose_time(void) {}
#endif
uint64_t now_ns(void);    // CLOCK_MONOTONIC
void pause_briefly(void); // 20 us and what the system adds; keeps errno
