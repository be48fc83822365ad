// GPU times of launches inside the application, by events before and after them in their stream.
//
// Nothing waits for an event: whether it has passed is asked when the next launch is timed, when the window
// closes, and when its context ends. No lock is held across a call of the driver: who takes a timing is the
// only one to look at it.
#include "window/timing.h"

#include "arguments/arguments.h"
#include "base/fork.h"
#include "base/state.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "objects/stream_capture.h"
#include "record/writer.h"
#include "window/launches.h"

#include <stdio.h>
#include <string.h>

enum { CAPTURE_MODE_RELAXED = 2 }; // CU_STREAM_CAPTURE_MODE_RELAXED

enum {
  TIMED_AT_FIRST = 8,
  TIMINGS = 256, // under way at most
};

enum { TIMING_FREE, TIMING_TAKEN, TIMING_UNDER_WAY };

struct timing {
  _Atomic int state;
  struct list_row *row;          // of the list of launches; NULL: a launch of the window
  uint64_t call;                 // its number
  uint64_t start, stop, context; // CUevent, CUevent, CUcontext
};

static struct timing timings[TIMINGS];

// The first launches, then the 16th, 32nd, ...: an event costs about as much as a launch.
bool is_timed(uint64_t launch) { return launch <= TIMED_AT_FIRST || (launch & (launch - 1)) == 0; }

static _Atomic uint64_t launches_in_window;

bool is_timed_in_window(void) { return is_timed(atomic_fetch_add(&launches_in_window, 1) + 1); }

void forget_window_timings(void) { atomic_store(&launches_in_window, 0); }

static void reset(void) {
  forget_window_timings();
  memset((void *)timings, 0, sizeof timings); // they are the parent's
}
IN_CHILD(reset);

// Asking for an event may spoil another thread's stream capture, unless the asking thread says that it knows
// what it does. Not yet seen on a GPU.
static void exchange_capture_mode(int *capture_mode) {
  int (*exchange)(int *) = driver_symbol("cuThreadExchangeStreamCaptureMode");
  if (exchange != NULL)
    exchange(capture_mode);
}

static void end_timing(struct timing *timing) {
  int (*destroy)(uint64_t) = driver_symbol("cuEventDestroy_v2");
  if (timing->start != 0 && destroy != NULL)
    destroy(timing->start);
  if (timing->stop != 0 && destroy != NULL)
    destroy(timing->stop);
  timing->start = timing->stop = 0;
  atomic_store_explicit(&timing->state, TIMING_FREE, memory_order_release);
}

static bool take_timing(struct timing *timing, int from) {
  return atomic_compare_exchange_strong(&timing->state, &from, TIMING_TAKEN);
}

static void add_time(const struct timing *timing, uint64_t time_ns) {
  char text[64];
  if (timing->row != NULL) {
    add_listed_time(timing->row, time_ns);
    return;
  }
  int length = snprintf(text, sizeof text, "gpu_time_ns.%llu=%llu\n", (unsigned long long)timing->call,
                        (unsigned long long)time_ns);
  write_process_text(text, (size_t)length);
}

// Takes over what has ended. A `context` that is about to end takes its events with it, ended or not.
void collect_timings(uint64_t context) {
  if (atomic_load(&captures_under_way) > 0)
    return;
  int capture_mode = CAPTURE_MODE_RELAXED;
  exchange_capture_mode(&capture_mode);
  int (*query)(uint64_t) = driver_symbol("cuEventQuery");
  int (*elapsed)(float *, uint64_t, uint64_t) = driver_symbol("cuEventElapsedTime");
  for (struct timing *timing = timings; timing < timings + TIMINGS; timing++) {
    if (query == NULL || elapsed == NULL || !take_timing(timing, TIMING_UNDER_WAY))
      continue;
    if (context != 0 && timing->context != context) {
      atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
      continue;
    }
    int result = query(timing->stop);
    float milliseconds = 0;
    if (result == SUCCESS && elapsed(&milliseconds, timing->start, timing->stop) == SUCCESS)
      add_time(timing, (uint64_t)((double)milliseconds * 1e6 + 0.5));
    if (result == ERROR_NOT_READY && context == 0)
      atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
    else
      end_timing(timing);
  }
  exchange_capture_mode(&capture_mode);
}

static int record_event(const struct call *call, uint64_t event) {
  bool per_thread = (call->record_function & PER_THREAD_BIT) != 0;
  int (*record)(uint64_t, uint64_t) = driver_symbol(per_thread ? "cuEventRecord_ptsz" : "cuEventRecord");
  return record != NULL ? record(event, call->stream) : ERROR_SYMBOL_NOT_FOUND;
}

void begin_timing(struct call *call, struct list_row *row) {
  int (*create)(uint64_t *, unsigned) = driver_symbol("cuEventCreate");
  unsigned id = call->function->id;
  if (create == NULL || atomic_load(&captures_under_way) > 0 ||
      (id != ID_cuLaunchKernel && id != ID_cuLaunchCooperativeKernel && id != ID_cuLaunchKernelEx &&
       id != ID_cuGraphLaunch && !is_old_launch(call)))
    return;
  collect_timings(0);
  struct timing *timing = timings;
  while (timing < timings + TIMINGS && !take_timing(timing, TIMING_FREE))
    timing++;
  if (timing == timings + TIMINGS)
    return;
  timing->row = row;
  timing->call = call->number;
  timing->context = current_context();
  call->stream = stream_of_call(call);
  if (create(&timing->start, 0) == SUCCESS && create(&timing->stop, 0) == SUCCESS &&
      record_event(call, timing->start) == SUCCESS)
    call->timing = timing;
  else
    end_timing(timing);
}

void launch_was_timed(struct call *call, int result) {
  if (result == SUCCESS && record_event(call, call->timing->stop) == SUCCESS)
    atomic_store_explicit(&call->timing->state, TIMING_UNDER_WAY, memory_order_release);
  else
    end_timing(call->timing);
}
