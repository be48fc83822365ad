// The selection (which launches), and the windows it opens and closes.
#define _GNU_SOURCE
#include "copy/copy.h"

#include <dlfcn.h>
#include <pthread.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

struct selection selection;
static char *nvtx_range; // selection.nvtx_range

static regex_t kernel_expression;
static char *(*demangle)(const char *, char *, size_t *, int *);
static _Atomic uint64_t launches_recorded;
static _Atomic uint64_t launches_finished; // of those that were selected
// Windows open and close under it. It is not held while memory is read.
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static bool window_is_closing; // the present one
static atomic_bool any_window;
_Atomic uint32_t window_number; // of the present one, or of the last one

// ---- what was asked for -------------------------------------------------------------------------

static uint64_t number_of(const char *variable) {
  const char *text = getenv(variable);
  return text != NULL ? strtoull(text, NULL, 10) : 0;
}

bool read_selection(void) {
  static bool compiled;
  const char *all = getenv(ENV_ALL), *kernel = getenv(ENV_KERNEL), *launch = getenv(ENV_LAUNCH);
  const char *memory = getenv(ENV_MEMORY), *list = getenv(ENV_LIST);
  selection = (struct selection){.all = all != NULL && strcmp(all, "1") == 0, .first_launch = 1};
  selection.last_launch = UINT64_MAX;
  selection.every = number_of(ENV_EACH);
  selection.list = list != NULL && strcmp(list, "1") == 0;
  const char *device_hash = getenv(ENV_DEVICE_HASH);
  selection.no_device_hash = device_hash != NULL && strcmp(device_hash, "0") == 0;
  selection.max_bytes = number_of(ENV_MAX_BYTES);
  selection.max_launches = number_of(ENV_MAX_LAUNCHES);
  if (memory != NULL && strcmp(memory, "params") == 0)
    selection.reach = REACH_PARAMETERS;
  else if (memory != NULL && strcmp(memory, "live") == 0)
    selection.reach = REACH_LIVE;
  if (launch != NULL && launch[0] != '\0') {
    char *end;
    selection.first_launch = selection.last_launch = strtoull(launch, &end, 10);
    if (*end == '-')
      selection.last_launch = strtoull(end + 1, NULL, 10);
  }
  const char *range = getenv(ENV_NVTX), *profiler = getenv(ENV_PROFILER);
  free(nvtx_range);
  nvtx_range = range != NULL && range[0] != '\0' ? strdup(range) : NULL; // the environment may change
  selection.nvtx_range = nvtx_range;
  selection.profiler = profiler != NULL && strcmp(profiler, "1") == 0;
  selection.bounded = selection.profiler || selection.nvtx_range != NULL;
  selection.whole_range = selection.bounded && !selection.list && kernel == NULL && launch == NULL;
  if (kernel != NULL && kernel[0] != '\0') {
    if (!compiled && regcomp(&kernel_expression, kernel, REG_EXTENDED | REG_NOSUB) != 0)
      return false; // `replay capture` compiles it first and says what is wrong
    compiled = true;
    selection.has_kernel = true;
  }
  memset((void *)&perturbation, 0, sizeof perturbation);
  atomic_store(&launches_recorded, 0);
  atomic_store(&launches_finished, 0);
  window_is_closing = false;
  atomic_store(&any_window, false);
  return true;
}

// Names of C++ kernels match as the linker knows them or as people write them.
bool name_is_selected(const char *name) {
  static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
  static bool tried;
  if (!selection.has_kernel)
    return !selection.all && !selection.whole_range;
  if (regexec(&kernel_expression, name, 0, NULL, 0) == 0)
    return true;
  if (name[0] != '_' || name[1] != 'Z')
    return false;
  pthread_mutex_lock(&loading);
  if (!tried) {
    tried = true;
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, "__cxa_demangle") : NULL;
    memcpy(&demangle, &found, sizeof found);
  }
  pthread_mutex_unlock(&loading);
  int status = -1;
  char *readable = demangle != NULL ? demangle(name, NULL, NULL, &status) : NULL;
  bool matches = readable != NULL && status == 0 && regexec(&kernel_expression, readable, 0, NULL, 0) == 0;
  free(readable);
  return matches;
}

// ---- opening and closing ------------------------------------------------------------------------

void reset_windows_after_fork(void) { pthread_mutex_init(&changing, NULL); }

uint32_t open_window(struct thread *thread, uint64_t call, uint64_t ordinal) {
  (void)thread;
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
    copy_contents(thread, &list, MOMENT_AFTER, call, false);
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

static bool is_selected(uint64_t ordinal) {
  if (selection.all)
    return true;
  return selection.first_launch <= ordinal && ordinal <= selection.last_launch &&
         (selection.every <= 1 || (ordinal - selection.first_launch) % selection.every == 0);
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
    if (is_selected(ordinal)) {
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
  bool selected = is_selected(ordinal);
  call->selected_launches = selected;
  call->selected = selected && !selection.all;
  if (selected)
    open_window_for(call);
}

void open_window_for(struct call *call) {
  if (current_mode() != MODE_CLOSED)
    return;
  number_call(call);
  uint32_t opened = open_window(call->thread, call->number, call->ordinal);
  call->opened = opened != 0 ? opened : call->opened;
}

bool launch_is_outside(void) {
  if (selection.list || selection.bounded || atomic_load(&captures_under_way) > 0)
    return false;
  uint64_t before = atomic_load(&perturbation.launches_matched);
  do { // a note is written of every launch whose number is a power of two
    if ((before & (before + 1)) == 0 || is_selected(before + 1))
      return false;
  } while (!atomic_compare_exchange_weak(&perturbation.launches_matched, &before, before + 1));
  atomic_fetch_add(&perturbation.outside_selection, 1);
  return true;
}

void count_after_end(void) {
  atomic_fetch_add_explicit(&perturbation.launches_matched, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&perturbation.after_end, 1, memory_order_relaxed);
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
