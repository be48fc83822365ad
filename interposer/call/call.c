// The one path of every recorded call: ENTER, the driver, LEAVE, and what the call did to memory and objects.
#include "call/call.h"

#include "arguments/arguments.h"
#include "base/selection.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "graph/graph.h"
#include "objects/objects.h"
#include "record/encode.h"
#include "window/window.h"

enum { MAX_WINDOWS_WAITED_FOR = 1000 };

static ZERO_IN_CHILD atomic_uchar noted_uncaptured[SLOT_COUNT];

static bool is_recorded(const struct function *function) {
  int now = current_mode();
  if (function->keep == KEEP_FOLLOWED)
    return false;
  return now == MODE_OPEN || (now == MODE_CLOSED && function->keep == KEEP_ALWAYS && !selection.list);
}

static void note_matching_kernel(struct kernel *kernel, const uint32_t geometry[7], void *state) {
  struct call *call = state;
  (void)geometry;
  write_note(NOTE_LAUNCH_MATCHED, call->record_function, call->number, "%lu %s", call->ordinal, kernel->name);
  call->ordinal++;
}

static void note_matches(struct call *call) {
  if (call->function->effect == EFFECT_GRAPH_LAUNCH)
    visit_matching_kernels(call->arguments[0], note_matching_kernel, call);
  else
    write_note(NOTE_LAUNCH_MATCHED, call->record_function, call->number, "%lu %s", call->ordinal,
               call->kernel->name);
}

// Of the launches of a kernel in a window the first bears its name. That of an enumerated one is in no other
// record.
static bool is_to_be_named(const struct call *call) {
  return call->ordinal != 0 || (call->kernel != NULL && call->kernel->is_enumerated);
}

static bool is_first_in_window(const struct call *call) {
  return call->function->effect == EFFECT_GRAPH_LAUNCH ||
         atomic_load_explicit(&call->kernel->described_window, memory_order_relaxed) != call->window;
}

// False: it was not written, and the call is not recorded.
static bool write_enter(struct call *call) {
  if (is_to_be_named(call) && is_first_in_window(call))
    note_matches(call);
  if (current_mode() == MODE_OPEN && call->function->unsupported[0] != '\0')
    write_note(NOTE_UNSUPPORTED_CALL, call->record_function, call->number, "%s: %s", call->function->symbol,
               call->function->unsupported);
  attach_inputs(call);
  row_enter(call);
  if (UNLIKELY(asks_for_origins()) && is_any_launch(call->function))
    write_origin(call);
  if (!encode_enter(call)) {
    call->is_busy = writer_is_open();
    if (call->is_busy)
      write_note(NOTE_THREADS_BUSY, call->record_function, call->number,
                 "its window closed before this call came to be recorded, and it is in none");
    return false;
  }
  if (call->function->effect == EFFECT_LAUNCH)
    launch_is_described(call);
  keep_image(call);
  return true;
}

static void look_at_listed(struct call *call) {
  if (!call->in_capture)
    list_launches_of(call);
  if (call->function->effect == EFFECT_END_OF_CONTEXT)
    call->ending_context = context_that_ends(call);
}

enum { WINDOW_IS_OPEN = 1 };

// Differs between any two windows, and between a window and the time around it: the number is raised just
// before a window opens, so the time just before one and the time after it are the same here.
static uint64_t window_now(void) {
  uint32_t number;
  bool open;
  do { // the number is raised before a window opens
    number = atomic_load(&window_number);
    open = atomic_load(&mode) == MODE_OPEN;
  } while (number != atomic_load(&window_number));
  return (uint64_t)number << 1 | open;
}

static void prepare_call(struct call *call, bool touches) {
  number_call(call);
  call->scratch_used = 0;
  call->packed = NULL;
  call->attachments = take_scratch(call, MAX_ATTACHMENTS * sizeof *call->attachments);
  if (call->function->effect == EFFECT_LAUNCH)
    pack_launch_parameters(call);
  if (touches)
    prepare_memory(call);
  if (current_mode() == MODE_OPEN && !call->in_capture)
    look_before_wait(call);
}

// What the call is, whichever window it comes to; it may open one.
static void look_at_call(struct call *call) {
  const struct function *function = call->function;
  call->in_capture = goes_into_capture(call);
  if (call->in_capture)
    call->record_function |= IN_CAPTURE_BIT;
  describe_graph_call(call);
  if (UNLIKELY(asks_for_origins()) && (is_any_launch(function) || adds_node(function)))
    look_at_origin(call);
  if (call->in_capture && function->effect == EFFECT_LAUNCH) {
    call->kernel = kernel_of_handle(call->arguments[function->effect_terms[0].first]);
    if (kernel_matches(call->kernel))
      atomic_fetch_add(&perturbation.in_stream_capture, 1);
  }
  if (selection.list)
    look_at_listed(call);
  else if (is_any_launch(function) && !call->in_capture)
    select_launch(call);
}

static void go_through_gate(struct call *call, bool recorded) {
  if (!pass_gate(call->thread) && recorded)
    write_note(NOTE_THREADS_BUSY, call->record_function, call->number,
               "another thread waits for the device and reads memory; this call did not wait any longer");
  call->inside = true;
}

// Prepares the call until the window that is open when it is inside the gate is the one that it was prepared
// for: while this thread waited, that may have closed, and another one opened for which nothing was copied
// yet. False: the call is not recorded.
static bool enter_window(struct call *call, bool may_be_recorded) {
  bool touches = (call->function->flags & FLAG_TOUCHES) != 0 && !call->in_capture;
  for (unsigned attempt = 0;; attempt++) {
    uint64_t prepared_for = window_now();
    lose_time();
    bool in_window = (prepared_for & WINDOW_IS_OPEN) != 0;
    bool recorded =
        may_be_recorded && is_recorded(call->function) && (in_window || call->function->keep == KEEP_ALWAYS);
    call->window = (uint32_t)(prepared_for >> 1);
    if (recorded)
      prepare_call(call, touches);
    if (call->ending_context != 0) {
      collect_timings(call->ending_context);
      forget_flights(call->ending_context);
    }
    if (touches && !call->inside)
      go_through_gate(call, recorded);
    if (window_now() == prepared_for && (in_window || !call->selected))
      return recorded;
    if (!may_be_recorded || current_mode() == MODE_DONE)
      return false;
    if (attempt == MAX_WINDOWS_WAITED_FOR) {
      write_note(NOTE_THREADS_BUSY, call->record_function, call->number,
                 "windows of other threads opened and closed %d times; this call is not recorded", attempt);
      call->is_busy = true;
      return false;
    }
    if (call->inside)
      count_outside(call->thread);
    call->inside = false;
    if (attempt > 0)
      pause_briefly(); // the thread that opens the window may not be running
    if (call->selected)
      open_window_for(call);
  }
}

// Inside the gate: a call whose ENTER is before WINDOW_CLOSE has ended when the window's memory is read, and
// one that had to wait for that is not recorded any more.
static void record_enter(struct call *call, bool prepared) {
  call->waits_for_window = prepared && current_mode() == MODE_CLOSED && graph_change_can_wait(call);
  bool recorded = prepared && !call->waits_for_window &&
                  (belongs_to_window(call) || is_recorded(call->function)) && write_enter(call);
  if (recorded && is_any_launch(call->function) && !call->in_capture && is_timed_in_window())
    begin_timing(call, NULL, row_of_launch(call));
  if (UNLIKELY(selection.when.triggers != 0) && recorded && call->selected)
    tell_recording(now_ns()); // the time that reading its inputs took is not the launch's
  if (recorded)
    return;
  call->number = 0;
  if (UNLIKELY(selection.when.triggers != 0) && is_any_launch(call->function) && !call->in_capture)
    watch_time(call);
}

void begin_call(struct call *call, struct thread *thread, unsigned slot, const uint64_t *arguments) {
  KEEP_ERRNO;
  *call = (struct call){.thread = thread, .nested = thread->depth++ > 0};
  if (call->nested)
    return;
  if (UNLIKELY(current_mode() == MODE_UNKNOWN))
    initialise();
  call->arguments = arguments;
  call->function = &functions[slots[slot].function];
  call->record_function =
      (uint16_t)(call->function->record_id | (slots[slot].per_thread ? PER_THREAD_BIT : 0));
  bool may_be_recorded =
      current_mode() >= MODE_CLOSED && current_mode() != MODE_DONE && thread_has_scratch(thread);
  if (may_be_recorded)
    look_at_call(call);
  bool prepared = enter_window(call, may_be_recorded);
  lose_time();
  record_enter(call, prepared);
  // Of the launches outside the window only some: there may be millions.
  if (call->ordinal != 0 && call->number == 0 && (call->ordinal & (call->ordinal - 1)) == 0)
    note_matches(call);
}

// No object begins or ends by such a call.
static bool only_touches_memory(const struct function *function) {
  switch (function->effect) {
  case EFFECT_LAUNCH:
  case EFFECT_READ:
  case EFFECT_WRITE:
  case EFFECT_COPY:
  case EFFECT_CUSTOM:
    return true;
  default:
    return false;
  }
}

static void follow_profiler(const struct call *call) {
  static atomic_bool started; // starting twice is starting once
  if (call->function->id == ID_cuProfilerStart && !atomic_exchange(&started, true))
    begin_selected_range();
  if (call->function->id == ID_cuProfilerStop && atomic_exchange(&started, false))
    end_selected_range();
}

void end_call(struct call *call, int result) {
  struct thread *thread = call->thread;
  if (call->nested) {
    thread->depth--;
    return;
  }
  KEEP_ERRNO;
  // A wait for an event of a capture brings its stream into it.
  if (call->number != 0 && !(call->function->flags & FLAG_TOUCHES) && !call->in_capture &&
      goes_into_capture(call))
    call->record_function |= IN_CAPTURE_BIT;
  call->result = result;
  if (call->number != 0) {
    attach_outputs(call, result);
    row_leave(call, result);
    encode_leave(call, result);
  }
  if (call->timing != NULL)
    launch_was_timed(call, result);
  if (call->flight != 0)
    end_flight(call, result);
  else if (UNLIKELY(result != SUCCESS))
    device_may_have_failed(NULL, result);
  if (UNLIKELY(call->origin != 0) && call->in_capture && result == SUCCESS)
    follow_captured_launch(call);
  int now = current_mode();
  bool changes_objects = !only_touches_memory(call->function);
  if (changes_objects) {
    note_modules(call, result);
    follow_graph_call(call, result);
  }
  if (changes_objects && result == SUCCESS && (now == MODE_CLOSED || now == MODE_OPEN)) {
    follow_effects(call);
    if (makes_context(call->function))
      register_process_end();
    if (is_first_success()) {
      register_process_end();
      describe_driver();
    }
  }
  if (call->function->id == ID_cuInit)
    register_process_end(); // also of a program that gives up
  if (call->function->effect == EFFECT_END_CAPTURE && atomic_load(&captures_under_way) > 0)
    atomic_fetch_sub(&captures_under_way, 1); // a failed end ends the capture as well
  if (call->inside)
    count_outside(thread);
  if (call->number != 0 && result == SUCCESS && current_mode() == MODE_OPEN)
    look_after_wait(call);
  if ((call->number != 0 || call->matched > 0) && !call->in_capture)
    finish_launch(call);
  if (selection.profiler && changes_objects && result == SUCCESS)
    follow_profiler(call);
  thread->depth--;
}

void note_uncaptured(unsigned slot) {
  atomic_store(&memory_is_shared, true); // as far as anybody knows
  if (current_mode() != MODE_OPEN || slots[slot].reason[0] == '\0' || current_thread()->depth > 0 ||
      atomic_exchange(&noted_uncaptured[slot], 1) != 0)
    return;
  KEEP_ERRNO;
  UNSEEN;
  write_note(NOTE_UNSUPPORTED_CALL, 0, last_call_number(), "%s: %s", slots[slot].symbol, slots[slot].reason);
}
