// Threads, and the gate that keeps them apart while contents of memory are read.
//
// The gate is closed by one thread. Others wait at it before a call that touches memory; calls that are
// inside the driver already are waited for, in bounded time. Waiting is bounded in the other direction as
// well: while the thread that closed the gate waits for the device, the device may be waiting (a host
// function, a spinning kernel) for something that only a thread at the gate will do.
#include "base/selection.h"
#include "contents/contents.h"
#include "driver/real.h"
#include "record/writer.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t patience_inside_ns = 200000000;  // for calls inside the driver
static const uint64_t patience_device_ns = 1000000000; // at the gate, while its owner waits for the device

static ZERO_IN_CHILD _Atomic(struct thread *) gate_owner;
static ZERO_IN_CHILD atomic_bool owner_waits_for_device;
static bool all_are_outside; // but the one that closed the gate

void prepare_gate(void) { syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0); }

// False: the owner has waited for the device for longer than this thread has patience.
static bool wait_at_gate(struct thread *thread) {
  struct thread *waited_for = NULL;
  uint64_t waiting_since = 0;
  for (;;) {
    struct thread *owner = atomic_load(&gate_owner);
    if (owner == NULL || owner == thread) {
      lose_time();
      return true;
    }
    if (owner != waited_for || !atomic_load(&owner_waits_for_device))
      waiting_since = 0;
    else if (waiting_since == 0)
      waiting_since = now_ns();
    else if (now_ns() - waiting_since > patience_device_ns)
      return false;
    waited_for = owner;
    pause_briefly();
  }
}

// A gate that is open while this thread waits may be closed by the next before it is inside: it looks again.
bool pass_gate(struct thread *thread) {
  for (bool patient = true;;) {
    count_inside(thread);
    lose_time();
    struct thread *owner = atomic_load_explicit(&gate_owner, memory_order_relaxed);
    if (LIKELY(owner == NULL || owner == thread))
      return true;
    if (!patient) // its work may go on while memory is read, and after that
      return atomic_store(&memory_is_shared, true), false;
    count_outside(thread);
    patient = wait_at_gate(thread);
  }
}

bool close_gate(struct thread *thread, uint64_t call) {
  for (;;) {
    struct thread *none = NULL;
    if (atomic_compare_exchange_strong(&gate_owner, &none, thread))
      break;
    if (none == thread)
      return true;
    if (!wait_at_gate(thread))
      return false;
  }
  lose_time();
  // After this, a thread that did not see the gate closed has its `inside` visible here.
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  atomic_thread_fence(memory_order_seq_cst);
  uint64_t deadline = now_ns() + patience_inside_ns;
  unsigned busy = 0;
  for (struct thread *other = atomic_load(&threads); other != NULL; other = other->next) {
    while (other != thread && atomic_load(&other->inside) % ALL_INSIDE > 0) {
      if (now_ns() > deadline) {
        busy++;
        break;
      }
      pause_briefly();
    }
  }
  all_are_outside = busy == 0;
  if (busy > 0)
    write_note(NOTE_THREADS_BUSY, 0, call,
               "%u other thread%s inside the driver while contents were read, for longer than is waited; "
               "what its call was changing may be captured half changed: where outputs differ, capture again",
               busy, busy == 1 ? " was" : "s were");
  return true;
}

uint64_t touching_calls(void) {
  uint64_t calls = 1;
  for (const struct thread *other = atomic_load(&threads); other != NULL; other = other->next)
    calls += atomic_load(&other->inside) / ALL_INSIDE;
  return all_are_outside && !atomic_load(&memory_is_shared) ? calls : 0;
}

void open_gate(struct thread *thread) {
  atomic_store(&owner_waits_for_device, false);
  struct thread *owner = thread;
  atomic_compare_exchange_strong(&gate_owner, &owner, NULL);
}

// ---- whether the device has nothing to do -------------------------------------------------------

// Found out by asking and never by waiting without end. A stream may be waiting for a host function, for a
// kernel that spins on a flag, or for a value that this very thread writes later: cuCtxSynchronize alone
// could stop the application for ever. So every known stream is asked until it is idle or patience ends, and
// only then the context is synchronised, which returns at once unless another thread's default stream works.
#ifndef IDLE_PATIENCE_MS
#define IDLE_PATIENCE_MS 30000 // of queued work; what takes longer is more likely waiting for the application
#endif
static const uint64_t patience_ns = IDLE_PATIENCE_MS * (uint64_t)1000000;
static const uint64_t patience_after_failure_ns =
    100000000; // the application was kept waiting once; not again
static ZERO_IN_CHILD atomic_bool patience_has_ended;

enum { LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 }; // constants in place of a CUstream

struct stream {
  uint64_t handle, context;
};

static MUTEX(lock);
static ZERO_IN_CHILD struct stream *streams;
static ZERO_IN_CHILD size_t stream_count, stream_capacity;

static void add_stream(uint64_t handle, uint64_t context) {
  HOLD(lock);
  if (HAS_ROOM(streams, stream_count, stream_capacity))
    streams[stream_count++] = (struct stream){handle, context};
}

static ZERO_IN_CHILD _Atomic uint64_t ended_streams;
uint64_t streams_ended(void) { return atomic_load(&ended_streams); }

static void remove_streams(uint64_t handle, uint64_t context) {
  atomic_fetch_add(&ended_streams, 1);
  HOLD(lock);
  for (size_t n = 0; n < stream_count;) {
    if (handle != 0 ? streams[n].handle == handle : streams[n].context == context)
      streams[n] = streams[--stream_count];
    else
      n++;
  }
}

void note_streams(const struct call *call) {
  static _Atomic uint64_t first_context;
  uint64_t none = 0, context = makes_context(call->function) ? handle_given_out(call) : 0;
  if (context != 0 && !atomic_compare_exchange_strong(&first_context, &none, context) && none != context)
    atomic_store(&memory_is_shared, true); // with what another context does
  uint64_t given = call->function->gives == HANDLE_CUstream ? handle_given_out(call) : 0;
  if (given != 0)
    add_stream(given, current_context());
  else if (ended_by(call->function) == HANDLE_CUstream && call->arguments[0] != 0)
    remove_streams(call->arguments[0], 0);
  else if (call->ending_context != 0)
    remove_streams(0, call->ending_context);
}

// ---- waiting ------------------------------------------------------------------------------------

const char context_has_ended[] = "its context has ended";
static const char device_is_busy[] = "the device did not become idle";
static const char error_of_earlier_work[] = "the device reports an error of earlier work";
static ZERO_IN_CHILD atomic_int device_error;   // the CUresult that said so
static ZERO_IN_CHILD atomic_bool failed_before; // the launch that a window is of

static const char *problem_of(int result) {
  switch (result) {
  case SUCCESS:
  case ERROR_INVALID_HANDLE: // a stream that was destroyed meanwhile
  case ERROR_SYMBOL_NOT_FOUND:
    return NULL;
  case ERROR_DEINITIALIZED:
  case ERROR_INVALID_CONTEXT:
  case ERROR_CONTEXT_IS_DESTROYED:
    return context_has_ended;
  default:
    atomic_store(&device_error, result);
    return error_of_earlier_work;
  }
}

static const char *wait_for_stream(uint64_t stream, uint64_t deadline) {
  for (long pause_ns = 1000;; pause_ns = pause_ns < 500000 ? pause_ns * 2 : pause_ns) {
    int result = ASK("cuStreamQuery", stream);
    if (result != ERROR_NOT_READY)
      return problem_of(result);
    if (now_ns() > deadline) {
      atomic_store(&patience_has_ended, true);
      return device_is_busy;
    }
    nanosleep(&(struct timespec){0, pause_ns}, NULL);
  }
}

// The n-th of the streams by now. False: there are no more; they may become fewer between two calls.
static bool stream_at(size_t n, struct stream *stream) {
  HOLD(lock);
  bool found = n < stream_count;
  if (found)
    *stream = streams[n];
  return found;
}

static const char *wait_for_context(uint64_t context, uint64_t deadline) {
  const char *problem = wait_for_stream(LEGACY_STREAM, deadline);
  if (problem == NULL)
    problem = wait_for_stream(PER_THREAD_STREAM, deadline);
  struct stream stream;
  for (size_t n = 0; problem == NULL && stream_at(n, &stream); n++) {
    if (stream.context == context)
      problem = wait_for_stream(stream.handle, deadline);
  }
  return problem == NULL ? problem_of(ASK("cuCtxSynchronize", 0)) : problem;
}

bool device_is_idle(void) {
  if (current_context() == 0 || ASK("cuStreamQuery", LEGACY_STREAM) != SUCCESS ||
      ASK("cuStreamQuery", PER_THREAD_STREAM) != SUCCESS)
    return false;
  bool idle = true;
  struct stream stream;
  for (size_t n = 0; idle && stream_at(n, &stream); n++) {
    // Of another context: it may write the same memory, and is asked all the same.
    int result = ASK("cuStreamQuery", stream.handle);
    idle = result == SUCCESS || result == ERROR_INVALID_HANDLE;
  }
  return idle;
}

bool device_becomes_idle(const struct range_list *list, const char **problem) {
  uint64_t patience = selection.when.hang_ns != 0 ? selection.when.hang_ns : patience_ns;
  patience = atomic_load(&patience_has_ended) ? patience_after_failure_ns : patience;
  uint64_t begin_ns = now_ns(), deadline = begin_ns + patience, current = current_context(), done = 0;
  atomic_store(&owner_waits_for_device, true);
  *problem = current != 0 ? wait_for_context(current, deadline) : NULL;
  for (size_t n = 0; *problem == NULL && n < list->count; n++) {
    uint64_t context = list->items[n].context;
    if (context != done && push_context(context)) {
      *problem = wait_for_context(context, deadline);
      pop_context();
    }
    done = context;
  }
  atomic_store(&owner_waits_for_device, false);
  atomic_fetch_add(&perturbation.waits, 1);
  atomic_fetch_add(&perturbation.wait_ns, now_ns() - begin_ns);
  return *problem == NULL;
}

void device_reports(int error, uint64_t call, const char *messages) {
  atomic_store(&device_error, error);
  write_note(NOTE_DEVICE_ERROR, 0, call, "%d %d %s", error, (int)MOMENT_AFTER,
             messages != NULL ? messages : "");
}

int device_error_met(void) { return atomic_load(&device_error); }
bool device_stayed_busy(void) { return atomic_load(&patience_has_ended); }
bool device_failed_before(void) { return atomic_load(&failed_before); }

char *device_messages(void) {
  enum { ROOM = 25600, KEPT = 900 }; // documented as the largest buffer; of a note
  char *messages = malloc(ROOM);
  size_t length = ROOM;
  if (messages == NULL)
    return NULL;
  if (ASK("cuLogsDumpToMemory", 0, word(messages), word(&length), 0) != SUCCESS || length >= ROOM)
    length = 0;
  messages[length] = 0;
  if (length > KEPT) {
    const char *last = messages + length - KEPT, *line = strchr(last, '\n');
    last = line == NULL ? last : line + 1;
    memmove(messages, last, strlen(last) + 1);
  }
  return messages;
}

void note_device_error(const char *problem, enum moment moment, uint64_t call) {
  if (moment == MOMENT_BEFORE && (problem == error_of_earlier_work || problem == device_is_busy))
    atomic_store(&failed_before, true);
  if (problem != error_of_earlier_work)
    return;
  char *messages = device_messages();
  write_note(NOTE_DEVICE_ERROR, 0, call, "%d %d %s", atomic_load(&device_error), (int)moment,
             messages != NULL ? messages : "");
  free(messages);
}
