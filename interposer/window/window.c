// Windows: which launches open and close them.
#define _GNU_SOURCE
#include "window/window.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/selection.h"
#include "base/state.h"
#include "base/thread.h"
#include "contents/contents.h"
#include "contents/copy.h"
#include "contents/gate.h"
#include "contents/host_writes.h"
#include "graph/graph.h"
#include "memory/hints.h"
#include "memory/memory.h"
#include "objects/kernels.h"
#include "record/process.h"
#include "record/writer.h"
#include "window/timing.h"

#include <pthread.h>

static _Atomic uint64_t launches_recorded;
static _Atomic uint64_t launches_finished; // of those that were selected
// Windows open and close under it. It is not held while memory is read.
static MUTEX(changing);
static bool window_is_closing; // the present one
static atomic_bool any_window;

// ---- opening and closing ------------------------------------------------------------------------

static void reset(void) {
  atomic_store(&launches_recorded, 0);
  atomic_store(&launches_finished, 0);
  window_is_closing = false;
  atomic_store(&any_window, false);
}
IN_CHILD(reset);

uint32_t open_window(uint64_t call, uint64_t ordinal) {
  uint32_t number = 0;
  if (!selection.all)
    refresh_hints(); // calls the application
  lose_time();
  pthread_mutex_lock(&changing);
  if (current_mode() == MODE_CLOSED) {
    atomic_store(&any_window, true);
    number = atomic_fetch_add(&window_number, 1) + 1;
    lose_time();
    atomic_store(&host_memory_is_pending, true); // calls that were not recorded
    write_graph_changes();
    write_note(NOTE_WINDOW_OPEN, 0, call, ordinal == 0 ? "everything" : "launch %llu",
               (unsigned long long)ordinal);
    int closed = MODE_CLOSED;
    atomic_compare_exchange_strong(&mode, &closed, MODE_OPEN);
    write_graph_changes(); // those that came in between
  }
  pthread_mutex_unlock(&changing);
  return number;
}

// With a window for each launch: the launches that are selected, if all of them come.
static uint64_t windows_at_most(void) {
  return (selection.last_launch - selection.first_launch) / selection.every + 1;
}

// A launch that is selected and has not come to its window yet needs another one.
static bool more_windows_follow(void) {
  return selection.every != 0 && writer_is_open() && atomic_load(&launches_finished) < windows_at_most() &&
         (selection.max_launches == 0 || atomic_load(&launches_recorded) < selection.max_launches);
}

// With a window for each launch there may be more to come: all memory counts as untouched again.
static void end_window(void) {
  pthread_mutex_lock(&changing);
  bool more = more_windows_follow();
  if (more) {
    memory_forget_touches();
    forget_host_contents();
    forget_window_timings();
  } else {
    end_device_hashing(0);
  }
  window_is_closing = false;
  int open = MODE_OPEN;
  atomic_compare_exchange_strong(&mode, &open, more ? MODE_CLOSED : MODE_DONE);
  pthread_mutex_unlock(&changing);
}

// True for one thread alone.
static bool begin_closing(uint32_t number) {
  lose_time();
  pthread_mutex_lock(&changing);
  bool closes = current_mode() == MODE_OPEN && !window_is_closing && atomic_load(&window_number) == number;
  if (closes)
    window_is_closing = true;
  pthread_mutex_unlock(&changing);
  return closes;
}

void close_window(struct thread *thread, uint64_t call, uint32_t number, bool inside_launch) {
  if (!begin_closing(number))
    return;
  struct range_list list = {0};
  bool owns_gate = close_gate(thread, call);
  call = last_call_number(); // other threads' calls that were inside the driver belong to the window, too
  memory_list_touched(LIST_ALL, 0, 0, &list);
  if (atomic_load(&captures_under_way) > 0)
    write_note(NOTE_STREAM_CAPTURE, 0, call, "memory was not read at the end of the window");
  else if (owns_gate) {
    if (!inside_launch) // during which its thread writes nothing
      look_before_end(call + 1);
    copy_contents(&list, MOMENT_AFTER, call, false);
  } else
    write_note(NOTE_MEMORY_NOT_READ, 0, call,
               "another thread waits for the device; memory was not read at the end");
  collect_timings(0);
  describe_perturbation();
  unsigned long long launches = atomic_load(&launches_recorded);
  write_note(NOTE_WINDOW_CLOSE, 0, call, launches == 1 ? "%llu launch" : "%llu launches", launches);
  lose_time();
  end_window();
  lose_time();
  if (owns_gate)
    open_gate(thread);
  list_free(&list);
}

void finish_selection(void) {
  if (selection.list) {
    collect_timings(0);
    return;
  }
  if (current_mode() == MODE_OPEN)
    close_window(current_thread(), last_call_number(), atomic_load(&window_number), false);
  else
    describe_perturbation();
  if (!atomic_load(&any_window) && writer_is_open())
    write_note(NOTE_NO_WINDOW, 0, 0, "%llu launches matched",
               (unsigned long long)atomic_load(&perturbation.launches_matched));
}

static void count_match(struct kernel *kernel, const uint32_t geometry[7], void *state) {
  (void)kernel;
  (void)geometry;
  (*(uint32_t *)state)++;
}

// Each kernel in a graph that matches is a launch of its own; the window holds the launch of the graph.
static void select_graph(struct call *call) {
  uint32_t count = 0;
  visit_matching_kernels(call->arguments[0], count_match, &count);
  if (count == 0 || (selection.bounded && !inside_selected_range()))
    return;
  call->ordinal = atomic_fetch_add(&perturbation.launches_matched, count) + 1;
  call->matched = count;
  uint64_t opens = 0;
  for (uint64_t ordinal = call->ordinal; ordinal < call->ordinal + count; ordinal++)
    if (ordinal_is_selected(ordinal)) {
      call->selected_launches++;
      opens = opens == 0 ? ordinal : opens;
    }
  call->selected = call->selected_launches > 0 && !selection.all;
  if (opens != 0) {
    uint64_t first = call->ordinal;
    call->ordinal = opens;
    open_window_for(call);
    call->ordinal = first;
  }
}

void select_launch(struct call *call) {
  if (call->function->effect == EFFECT_GRAPH_LAUNCH) {
    select_graph(call);
    return;
  }
  call->kernel = kernel_of_handle(call->arguments[call->function->effect_terms[0].first]);
  if (!kernel_matches(call->kernel) || (selection.bounded && !inside_selected_range()))
    return;
  uint64_t ordinal = atomic_fetch_add(&perturbation.launches_matched, 1) + 1;
  call->ordinal = ordinal;
  call->matched = 1;
  bool selected = ordinal_is_selected(ordinal);
  call->selected_launches = selected;
  call->selected = selected && !selection.all;
  if (selected)
    open_window_for(call);
}

void open_window_for(struct call *call) {
  if (current_mode() != MODE_CLOSED)
    return;
  number_call(call);
  uint32_t opened = open_window(call->number, call->ordinal);
  call->opened = opened != 0 ? opened : call->opened;
}

static void count_skipped(const struct call *call) {
  if (call->is_busy)
    atomic_fetch_add(&perturbation.busy_threads, call->matched);
  else if (call->selected_launches > 0)
    atomic_fetch_add(&perturbation.after_end, call->matched);
  else
    atomic_fetch_add(&perturbation.outside_selection, call->matched);
}

void finish_launch(struct call *call) {
  if (!is_any_launch(call->function))
    return;
  if (call->matched > 0 && call->number == 0)
    count_skipped(call);
  uint64_t launches = call->function->effect == EFFECT_LAUNCH ? 1 : kernels_in_graph(call->arguments[0]);
  uint64_t recorded = call->number != 0 ? atomic_fetch_add(&launches_recorded, launches) + launches : 0;
  // Threads overtake one another: the launch with the last number need not be the last to leave the driver.
  uint64_t finished =
      call->selected ? atomic_fetch_add(&launches_finished, call->selected_launches) + call->selected_launches
                     : 0;
  if (selection.every != 0) {
    // The launches of other threads that had entered the driver by then belong to this window; another
    // thread's window may be open when they have left. A window whose launch was not recorded is closed, too.
    if (call->selected && call->number != 0)
      close_window(call->thread, call->number, call->window, true);
    else if (call->selected && call->opened != 0)
      close_window(call->thread, last_call_number(), call->opened, true);
    int closed = MODE_CLOSED;
    if (finished >= windows_at_most())
      atomic_compare_exchange_strong(&mode, &closed, MODE_DONE);
    return;
  }
  if ((call->selected && finished >= selection.last_launch - selection.first_launch + 1) ||
      (selection.max_launches != 0 && recorded >= selection.max_launches))
    close_window(call->thread, call->number, atomic_load(&window_number), true);
}

// ---- windows that are ranges --------------------------------------------------------------------

void begin_selected_range(void) {
  if (!count_range_begin() || !selection.whole_range || current_mode() != MODE_CLOSED)
    return;
  struct thread *thread = current_thread();
  thread->depth++; // what the driver is asked meanwhile is not the application's
  open_window(last_call_number(), 0);
  thread->depth--;
}

void end_selected_range(void) {
  if (!count_range_end() || !selection.whole_range)
    return;
  struct thread *thread = current_thread();
  thread->depth++;
  close_window(thread, last_call_number(), atomic_load(&window_number), false);
  thread->depth--;
}
