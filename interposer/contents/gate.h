// The gate that keeps threads out of the driver while memory is looked at.
#pragma once

#include "base/macros.h"
#include "base/state.h"
#include "base/thread.h"

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
