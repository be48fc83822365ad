// Contents of memory: the gate that keeps threads apart while they are read, copies, host writes.
#pragma once

#include "memory/memory.h"

// ---- the gate -----------------------------------------------------------------------------------

// Counts a call as inside the driver. The order of `inside` and `mode` is what close_gate relies on.
static inline void count_inside(struct thread *thread) {
  uint64_t inside = atomic_load_explicit(&thread->inside, memory_order_relaxed);
  atomic_store_explicit(&thread->inside, inside + ALL_INSIDE + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void count_less(struct thread *thread, uint64_t less) {
  uint64_t inside = atomic_load_explicit(&thread->inside, memory_order_relaxed);
  atomic_store_explicit(&thread->inside, inside - less, memory_order_release);
}
static inline void count_outside(struct thread *thread) { count_less(thread, 1); }
static inline void turn_back(struct thread *thread) { count_less(thread, ALL_INSIDE + 1); }

// True when the call passes straight through; it is then counted as inside until leave_closed.
static inline bool enter_closed(struct thread *thread) {
  count_inside(thread);
  int now = current_mode();
  if (LIKELY(now == MODE_CLOSED || now == MODE_INERT || now == MODE_DONE) || thread->depth > 0)
    return true;
  turn_back(thread);
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
void prepare_gate(void);
// Differs after a call that may have touched memory; 0: it may be touched at any time.
uint64_t touching_calls(void);

// ---- copies -------------------------------------------------------------------------------------

// Reads the contents of all ranges of the list into the blobs file; scans what it reads for pointers and
// appends what they reach when `follow`. The gate is closed.
void copy_contents(struct range_list *list, enum moment moment, uint64_t call, bool follow);
uint64_t bytes_left_out(void);  // by the limit, since then:
void forget_copied_bytes(void); // the limit is that of each window

extern atomic_bool host_memory_is_pending; // work may be under way that writes pinned or managed memory

// ---- whether the device still works -------------------------------------------------------------

void note_streams(const struct call *call);
uint64_t streams_ended(void); // how many: the handle of one may be given to another
bool device_becomes_idle(const struct range_list *list, const char **problem);
extern const char context_has_ended[]; // a problem that nobody need hear of when there is nothing to read
void note_device_error(const char *problem, enum moment moment,
                       uint64_t call); // if it is one; the gate is closed
// What a call of the application was told. messages: of the driver, asked before locks were taken; or NULL.
void device_reports(int error, uint64_t call, const char *messages);
// The newest of what the driver keeps of its messages (since CUDA 12.9), whole lines, on the heap; NULL: no
// memory. Asking changes nothing.
char *device_messages(void);
bool device_is_idle(void);       // of the current context, asked and not waited for
int device_error_met(void);      // by a wait of the shim; 0: none
bool device_failed_before(void); // a launch that is recorded
bool device_stayed_busy(void);   // for longer than is waited

// ---- what the host writes between two calls -----------------------------------------------------

void host_contents_were_read(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                             enum moment moment, uint64_t call);
bool host_writes_matter(void); // before a call that may read host memory
void look_for_host_writes(struct call *call, struct range_list *reached, bool follow);
void look_before_wait(struct call *call); // ENTER of such a call
void look_before_end(uint64_t call);      // before memory is read for the last time; the gate is closed
void look_after_wait(struct call *call);  // LEAVE of a call that may have waited for the device
void device_may_write_host_memory(void);
void forget_host_contents(void);
