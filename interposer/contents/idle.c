// Whether the device has nothing to do, found out by asking and never by waiting without end.
//
// A stream may be waiting for a host function, for a kernel that spins on a flag, or for a value that this
// very thread writes later: cuCtxSynchronize alone could stop the application for ever. So every known stream
// is asked until it is idle or patience ends, and only then the context is synchronised, which returns at
// once unless there is work in another thread's default stream.
#define _GNU_SOURCE
#include "contents/idle.h"

#include "base/clock.h"
#include "base/fork.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "record/writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef IDLE_PATIENCE_MS
#define IDLE_PATIENCE_MS 30000 // of queued work; what takes longer is more likely waiting for the application
#endif
static const uint64_t patience_ns = IDLE_PATIENCE_MS * (uint64_t)1000000;
static const uint64_t patience_after_failure_ns =
    100000000; // the application was kept waiting once; not again
static atomic_bool patience_has_ended;

struct stream {
  uint64_t handle, context;
};

static MUTEX(lock);
static struct stream *streams;
static size_t stream_count, stream_capacity;

static void add_stream(uint64_t handle, uint64_t context) {
  pthread_mutex_lock(&lock);
  if (stream_count == stream_capacity) {
    size_t capacity = stream_capacity == 0 ? 16 : stream_capacity * 2;
    struct stream *grown = realloc(streams, capacity * sizeof *grown);
    if (grown != NULL) {
      streams = grown;
      stream_capacity = capacity;
    }
  }
  if (stream_count < stream_capacity)
    streams[stream_count++] = (struct stream){handle, context};
  pthread_mutex_unlock(&lock);
}

static void remove_streams(uint64_t handle, uint64_t context) {
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n < stream_count;) {
    if (handle != 0 ? streams[n].handle == handle : streams[n].context == context)
      streams[n] = streams[--stream_count];
    else
      n++;
  }
  pthread_mutex_unlock(&lock);
}

void note_streams(const struct call *call) {
  switch (call->function->id) {
  case ID_cuStreamCreate:
  case ID_cuStreamCreateWithPriority:
  case ID_cuGreenCtxStreamCreate: {
    uint64_t handle;
    if (call->arguments[0] == 0)
      break;
    memcpy(&handle, (const void *)(uintptr_t)call->arguments[0], 8);
    add_stream(handle, current_context());
    break;
  }
  case ID_cuStreamDestroy_v2:
    if (call->arguments[0] != 0)
      remove_streams(call->arguments[0], 0);
    break;
  default:
    if (call->function->effect == EFFECT_END_OF_CONTEXT && call->ending_context != 0)
      remove_streams(0, call->ending_context);
  }
}

static void reset(void) { stream_count = 0; }
IN_CHILD(reset);

// ---- waiting ------------------------------------------------------------------------------------

const char context_has_ended[] = "its context has ended";
static const char error_of_earlier_work[] = "the device reports an error of earlier work";
static atomic_int device_error; // the CUresult that said so

static const char *problem_of(int result) {
  switch (result) {
  case SUCCESS:
  case ERROR_INVALID_HANDLE: // a stream that was destroyed meanwhile
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
  int (*query)(uint64_t) = driver_symbol("cuStreamQuery");
  if (query == NULL)
    return NULL;
  for (long pause_ns = 1000;; pause_ns = pause_ns < 500000 ? pause_ns * 2 : pause_ns) {
    int result = query(stream);
    if (result != ERROR_NOT_READY)
      return problem_of(result);
    if (now_ns() > deadline) {
      atomic_store(&patience_has_ended, true);
      return "the device did not become idle";
    }
    nanosleep(&(struct timespec){0, pause_ns}, NULL);
  }
}

// The n-th of the streams by now. False: there are no more; they may become fewer between two calls.
static bool stream_at(size_t n, struct stream *stream) {
  pthread_mutex_lock(&lock);
  bool found = n < stream_count;
  if (found)
    *stream = streams[n];
  pthread_mutex_unlock(&lock);
  return found;
}

static const char *wait_for_context(uint64_t context, uint64_t deadline) {
  static const uint64_t legacy_stream = 1, per_thread_stream = 2;
  const char *problem = wait_for_stream(legacy_stream, deadline);
  if (problem == NULL)
    problem = wait_for_stream(per_thread_stream, deadline);
  struct stream stream;
  for (size_t n = 0; problem == NULL && stream_at(n, &stream); n++) {
    if (stream.context == context)
      problem = wait_for_stream(stream.handle, deadline);
  }
  int (*synchronize)(void) = driver_symbol("cuCtxSynchronize");
  return problem == NULL && synchronize != NULL ? problem_of(synchronize()) : problem;
}

bool device_is_idle(void) {
  int (*query)(uint64_t) = driver_symbol("cuStreamQuery");
  uint64_t context = current_context();
  if (query == NULL || context == 0 || query(1) != SUCCESS || query(2) != SUCCESS)
    return false;
  bool idle = true;
  struct stream stream;
  for (size_t n = 0; idle && stream_at(n, &stream); n++) {
    // Of another context: it may write the same memory, and is asked all the same.
    int result = query(stream.handle);
    idle = result == SUCCESS || result == ERROR_INVALID_HANDLE;
  }
  return idle;
}

bool device_becomes_idle(const struct range_list *list, const char **problem) {
  int (*push)(uint64_t) = driver_symbol("cuCtxPushCurrent_v2");
  int (*pop)(uint64_t *) = driver_symbol("cuCtxPopCurrent_v2");
  uint64_t patience = atomic_load(&patience_has_ended) ? patience_after_failure_ns : patience_ns;
  uint64_t deadline = now_ns() + patience, current = current_context(), done = 0;
  *problem = current != 0 ? wait_for_context(current, deadline) : NULL;
  for (size_t n = 0; *problem == NULL && n < list->count; n++) {
    uint64_t context = list->items[n].context, popped;
    if (context == 0 || context == current || context == done || push == NULL || pop == NULL)
      continue;
    if (push(context) == SUCCESS) {
      *problem = wait_for_context(context, deadline);
      pop(&popped);
    }
    done = context;
  }
  return *problem == NULL;
}

// The newest of what the driver keeps of its messages (since CUDA 12.9), whole lines. Asking for it changes
// nothing there.
static const char *last_messages(void) {
  enum { ROOM = 25600, KEPT = 900 }; // documented as the largest buffer; of a note
  static char messages[ROOM];        // the gate is closed
  int (*dump)(uint32_t *, char *, size_t *, unsigned) = driver_symbol("cuLogsDumpToMemory");
  size_t length = ROOM;
  if (dump == NULL || dump(NULL, messages, &length, 0) != SUCCESS || length >= ROOM)
    return "";
  messages[length] = 0;
  if (length <= KEPT)
    return messages;
  const char *line = strchr(messages + length - KEPT, '\n');
  return line == NULL ? messages + length - KEPT : line + 1;
}

void note_device_error(const char *problem, enum moment moment, uint64_t call) {
  if (problem == error_of_earlier_work)
    write_note(NOTE_DEVICE_ERROR, 0, call, "%d %d %s", atomic_load(&device_error), (int)moment,
               last_messages());
}
