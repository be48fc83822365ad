// Windows: which launches open and close them.
#include "window/window.h"

#include "base/selection.h"
#include "contents/copy.h"
#include "graph/graph.h"
#include "objects/objects.h"
#include "record/writer.h"

static ZERO_IN_CHILD _Atomic uint64_t launches_recorded;
static ZERO_IN_CHILD _Atomic uint64_t launches_finished; // of those that were selected
static ZERO_IN_CHILD bool window_is_closing;             // the present one

// ---- opening and closing ------------------------------------------------------------------------

uint32_t open_window(uint64_t call, uint64_t ordinal) {
  uint32_t number = 0;
  if (!selection.all)
    refresh_hints(); // calls the application
  lose_time();
  HOLD(windows_change);
  if (current_mode() == MODE_CLOSED) {
    atomic_store(&any_window, true);
    number = atomic_fetch_add(&window_number, 1) + 1;
    lose_time();
    atomic_store(&host_memory_is_pending, true); // calls that were not recorded
    write_graph_changes();
    write_note(NOTE_WINDOW_OPEN, 0, call, ordinal == 0 ? "everything" : "launch %lu", ordinal);
    int closed = MODE_CLOSED;
    atomic_compare_exchange_strong(&mode, &closed, MODE_OPEN);
    write_graph_changes(); // those that came in between
  }
  return number;
}

// With a window for each launch: the launches that are selected, if all of them come.
static uint64_t windows_at_most(void) {
  return (selection.last_launch - selection.first_launch) / selection.every + 1;
}

// A launch that is selected and has not come to its window yet needs another one.
static bool more_windows_follow(void) {
  return selection.every != 0 && writer_is_open() && !watching_has_ended() &&
         atomic_load(&launches_finished) < windows_at_most() &&
         (selection.max_launches == 0 || atomic_load(&launches_recorded) < selection.max_launches);
}

// With a window for each launch there may be more to come: all memory counts as untouched again.
static void end_window(void) {
  HOLD(windows_change);
  bool more = more_windows_follow();
  if (more) {
    memory_forget_touches();
    forget_host_contents();
    forget_window_timings();
    if (selection.when.triggers != 0)
      forget_copied_bytes();
  }
  window_is_closing = false;
  int open = MODE_OPEN;
  atomic_compare_exchange_strong(&mode, &open, more ? MODE_CLOSED : MODE_DONE);
}

// True for one thread alone.
static bool begin_closing(uint32_t number) {
  lose_time();
  HOLD(windows_change);
  bool closes = current_mode() == MODE_OPEN && !window_is_closing && atomic_load(&window_number) == number;
  if (closes)
    window_is_closing = true;
  return closes;
}

// Unless it is closed already. launch: the one that is the last one, which has not returned yet; NULL: none.
static void close_window(struct thread *thread, uint64_t call, uint32_t number, const struct call *launch) {
  if (!begin_closing(number))
    return;
  struct range_list list = {0};
  bool owns_gate = close_gate(thread, call);
  call = last_call_number(); // other threads' calls that were inside the driver belong to the window, too
  memory_list_touched(LIST_ALL, 0, 0, &list);
  if (atomic_load(&captures_under_way) > 0)
    write_note(NOTE_STREAM_CAPTURE, 0, call, "memory was not read at the end of the window");
  else if (owns_gate) {
    if (launch == NULL) // during which its thread writes nothing
      look_before_end(call + 1);
    copy_contents(&list, MOMENT_AFTER, call, false);
  } else
    write_note(NOTE_MEMORY_NOT_READ, 0, call,
               "another thread waits for the device; memory was not read at the end");
  collect_timings(0);
  if (selection.when.triggers != 0)
    judge_window(launch, call, owns_gate, atomic_load(&launches_recorded));
  describe_perturbation();
  uint64_t launches = atomic_load(&launches_recorded);
  write_note(NOTE_WINDOW_CLOSE, 0, call, launches == 1 ? "%lu launch" : "%lu launches", launches);
  tell_hit();
  lose_time();
  end_window();
  lose_time();
  if (owns_gate)
    open_gate(thread);
  list_free(&list);
  if (device_failed_before()) // perhaps a launch that was not waited for
    device_may_have_failed(NULL, device_error_met());
}

void finish_selection(void) {
  if (selection.list) {
    collect_timings(0);
    return;
  }
  if (current_mode() == MODE_OPEN)
    close_window(current_thread(), last_call_number(), atomic_load(&window_number), NULL);
  else
    describe_perturbation();
  if (selection.when.triggers != 0) {
    look_for_failure();
    flights_land();
    end_watching(flights_not_judged());
  }
  if (!atomic_load(&any_window) && writer_is_open())
    write_note(NOTE_NO_WINDOW, 0, 0, "%lu launches matched", atomic_load(&perturbation.launches_matched));
}

static void count_match(struct kernel *kernel, const uint32_t geometry[7], void *state) {
  (void)kernel;
  (void)geometry;
  (*(uint32_t *)state)++;
}

static bool is_wanted(struct call *call) { // by what is watched for
  enum launch_use use = use_of_launch(call);
  if (use == LAUNCH_IN_A_PAUSE)
    launch_is_not_watched();
  return use == LAUNCH_IS_RECORDED || (use == LAUNCH_IS_IN_THE_RING && begin_flight(call) == FLIGHT_WAITS);
}

// Each kernel in a graph that matches is a launch of its own; the window holds the launch of the graph.
void select_launch(struct call *call) {
  uint64_t launched = call->arguments[call->function->effect_terms[0].first];
  uint32_t count = 0;
  if (call->function->effect == EFFECT_GRAPH_LAUNCH) {
    visit_matching_kernels(launched, count_match, &count);
  } else {
    call->kernel = kernel_of_handle(launched);
    count = kernel_matches(call->kernel);
  }
  if (count == 0 || (selection.bounded && !inside_selected_range()) ||
      (selection.source != NULL && !call->is_from_source))
    return;
  uint64_t first = atomic_fetch_add(&perturbation.launches_matched, count) + 1, opens = 0;
  call->ordinal = first;
  bool wanted = selection.when.triggers != 0 && is_wanted(call);
  for (uint64_t ordinal = first; ordinal < first + count; ordinal++)
    if (selection.when.triggers != 0 ? wanted : ordinal_is_selected(ordinal)) {
      call->selected_launches++;
      opens = opens == 0 ? ordinal : opens;
    }
  call->matched = count;
  call->selected = opens != 0 && !selection.all;
  call->ordinal = opens;
  if (opens != 0)
    open_window_for(call);
  call->ordinal = first;
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
  if (call->matched > 0 && call->number == 0 && call->flight == 0)
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
      close_window(call->thread, call->number, call->window, call);
    else if (call->selected && call->opened != 0)
      close_window(call->thread, last_call_number(), call->opened, call);
    int closed = MODE_CLOSED;
    if (finished >= windows_at_most() || watching_has_ended())
      atomic_compare_exchange_strong(&mode, &closed, MODE_DONE);
    return;
  }
  if ((call->selected && finished >= selection.last_launch - selection.first_launch + 1) ||
      (selection.max_launches != 0 && recorded >= selection.max_launches))
    close_window(call->thread, call->number, atomic_load(&window_number), call);
}

// ---- windows that are ranges --------------------------------------------------------------------

bool select_anew(void) {
  if (current_mode() != MODE_CLOSED || !selection.bounded || inside_selected_range() || !read_selection())
    return false;
  atomic_store(&launches_recorded, 0);
  atomic_store(&launches_finished, 0);
  atomic_store(&perturbation.launches_matched, 0);
  match_kernels_anew();
  return true;
}

void begin_selected_range(void) {
  if (!count_range_begin() || !selection.whole_range || current_mode() != MODE_CLOSED)
    return;
  UNSEEN;
  open_window(last_call_number(), 0);
}

void end_selected_range(void) {
  if (!count_range_end() || !selection.whole_range)
    return;
  UNSEEN;
  close_window(unseen, last_call_number(), atomic_load(&window_number), NULL);
}
