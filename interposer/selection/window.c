// The selection (which launches), the window it opens, and the copies that are made before a first touch.
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

void close_window(struct thread *thread, uint64_t call, uint32_t number) {
  if (!begin_closing(number))
    return;
  struct range_list list = {0};
  bool owns_gate = close_gate(thread, call);
  call = last_call_number(); // other threads' calls that were inside the driver belong to the window, too
  memory_list_touched(LIST_ALL, 0, 0, &list);
  if (atomic_load(&captures_under_way) > 0)
    write_note(NOTE_STREAM_CAPTURE, 0, call, "memory was not read at the end of the window");
  else if (owns_gate)
    copy_contents(thread, &list, MOMENT_AFTER, call, false);
  else
    write_note(NOTE_THREADS_BUSY, 0, call,
               "another thread waits for the device; memory was not read at the end");
  collect_timings(0);
  describe_perturbation();
  write_note(NOTE_WINDOW_CLOSE, 0, call, "%llu launches",
             (unsigned long long)atomic_load(&launches_recorded));
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
    close_window(current_thread(), last_call_number(), atomic_load(&window_number));
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
      close_window(call->thread, call->number, call->window);
    else if (call->selected && call->opened != 0)
      close_window(call->thread, last_call_number(), call->opened);
    int closed = MODE_CLOSED;
    if (finished >= windows_at_most())
      atomic_compare_exchange_strong(&mode, &closed, MODE_DONE);
    return;
  }
  if ((call->selected && finished >= selection.last_launch - selection.first_launch + 1) ||
      (selection.max_launches != 0 && recorded >= selection.max_launches))
    close_window(call->thread, call->number, atomic_load(&window_number));
}

// ---- before a call ------------------------------------------------------------------------------

// What a call may read or write, besides what kernel parameters reach.
struct touch {
  struct span spans[3];
  unsigned count;
  const uint8_t *host_bytes; // the call copies these to the device; they may hold pointers
  uint64_t host_length;
};

static void add_span(struct touch *touch, uint64_t address, uint64_t bytes) {
  if (address != 0 && bytes != 0 && touch->count < 3)
    touch->spans[touch->count++] = (struct span){address, bytes};
}

static struct touch touch_of(const struct call *call) {
  const struct function *function = call->function;
  struct touch touch = {.count = 0};
  uint64_t value[MAX_TERMS];
  if (is_any_launch(function))
    return touch;
  for (int n = 0; n < MAX_TERMS; n++)
    value[n] = term_value(call, &function->effect_terms[n]);
  switch (function->effect) {
  case EFFECT_WRITE:
  case EFFECT_READ:
    add_span(&touch, value[0], value[1]);
    break;
  case EFFECT_COPY:
    add_span(&touch, value[0], value[2]);
    add_span(&touch, value[1], value[2]);
    break;
  case EFFECT_CUSTOM:
    touch.count = copy_spans(call, touch.spans);
    break;
  default:
    return touch;
  }
  for (unsigned n = 0; n < function->parameter_count; n++) {
    const struct parameter *parameter = &parameters[function->first_parameter + n];
    if (parameter->role != ROLE_HOST_READ && parameter->role != ROLE_HOST_WRITE)
      continue;
    uint64_t bytes = term_value(call, &parameter->count);
    add_span(&touch, call->arguments[n], bytes); // of interest when it is pinned or managed
    if (parameter->role == ROLE_HOST_READ) {
      touch.host_bytes = (const uint8_t *)(uintptr_t)call->arguments[n];
      touch.host_length = bytes;
    }
  }
  return touch;
}

// Pointers in what the host sends: a table of pointers may be filled inside the window. With `reached` NULL
// only asks.
static bool host_bytes_reach(struct call *call, const struct touch *touch, struct range_list *reached) {
  size_t piece_bytes = 65536;
  uint32_t used = call->scratch_used;
  uint8_t *piece = take_scratch(call, piece_bytes);
  call->scratch_used = used;
  bool found = false;
  for (uint64_t done = 0; piece != NULL && !found && done < touch->host_length; done += piece_bytes) {
    size_t bytes =
        touch->host_length - done < piece_bytes ? (size_t)(touch->host_length - done) : piece_bytes;
    if (bytes < 8 || !read_memory(piece, touch->host_bytes + done, bytes))
      break;
    if (reached != NULL)
      memory_reach(piece, bytes, reached);
    else
      found = memory_points_to_untouched(piece, bytes);
  }
  return found;
}

static bool touches_something_new(struct call *call, const struct touch *touch) {
  bool launch = is_any_launch(call->function);
  if (variables_are_wanted())
    return true;
  if (call->function->effect == EFFECT_GRAPH_LAUNCH && graph_reaches_untouched(call->arguments[0]))
    return true;
  if (launch && call->packed != NULL && memory_points_to_untouched(call->packed, call->packed_bytes))
    return true;
  if (launch && memory_has_untouched_kind(selection.reach != REACH_LIVE))
    return true;
  if (launch && atomic_load(&bound_references) > 0 && references_reach_untouched())
    return true;
  for (unsigned n = 0; n < touch->count; n++)
    if (memory_has_untouched(touch->spans[n].address, touch->spans[n].bytes))
      return true;
  struct span span;
  for (uint64_t n = 0; call->function->effect == EFFECT_CUSTOM && batch_span(call, n, &span); n++)
    if (span.address != 0 && memory_has_untouched(span.address, span.bytes))
      return true;
  return selection.reach == REACH_REACHABLE && touch->host_bytes != NULL &&
         host_bytes_reach(call, touch, NULL);
}

// The bytes of a copy to the device are recorded when it is called. Where they stand in pinned or managed
// memory that earlier work may still be writing, that work has to end first.
static bool source_may_change(const struct touch *touch) {
  struct range range;
  return touch->host_bytes != NULL && atomic_load(&host_memory_is_pending) &&
         memory_find((uint64_t)(uintptr_t)touch->host_bytes, &range) &&
         (range.kind == RANGE_HOST || range.kind == RANGE_MANAGED);
}

// Whether the call may read what the host has written into memory that was read before.
static bool reads_host_memory(const struct call *call, const struct touch *touch) {
  if (!host_writes_matter(call))
    return false;
  if (is_any_launch(call->function))
    return true;
  for (unsigned n = 0; n < touch->count; n++)
    if (memory_is_on_host(touch->spans[n].address, touch->spans[n].bytes))
      return true;
  struct span span;
  for (uint64_t n = 0; call->function->effect == EFFECT_CUSTOM && batch_span(call, n, &span); n++)
    if (span.address != 0 && memory_is_on_host(span.address, span.bytes))
      return true;
  return false;
}

static bool may_write_host_memory_later(const struct call *call) {
  const struct function *function = call->function;
  if (is_any_launch(function))
    return memory_is_touched_on_host();
  return (function->effect == EFFECT_READ || function->effect == EFFECT_COPY ||
          function->effect == EFFECT_CUSTOM) &&
         !(function->flags & FLAG_SYNCHRONIZES);
}

// From owning the gate to being inside the driver, with no moment between in which another thread may close
// the gate.
static void go_inside(struct call *call) {
  count_inside(call->thread);
  call->inside = true;
  open_gate(call->thread);
}

static void copy_before_first_touch(struct call *call) {
  struct touch touch = touch_of(call);
  if (call->function->effect == EFFECT_LAUNCH)
    want_variables_of_launch(call);
  if (call->function->effect == EFFECT_GRAPH_LAUNCH)
    graph_wants_variables(call->arguments[0]);
  if (memory_has_blocks()) {
    hints_for_launch(call);
    for (unsigned n = 0; n < touch.count; n++)
      memory_cover(touch.spans[n].address, touch.spans[n].bytes);
    struct span span;
    for (uint64_t n = 0; call->function->effect == EFFECT_CUSTOM && batch_span(call, n, &span); n++)
      if (span.address != 0)
        memory_cover(span.address, span.bytes);
  }
  bool source_is_stale = source_may_change(&touch);
  bool look = atomic_load(&captures_under_way) == 0 && reads_host_memory(call, &touch);
  if (!source_is_stale && !look && !touches_something_new(call, &touch))
    return;
  if (atomic_load(&captures_under_way) > 0) {
    write_note(NOTE_STREAM_CAPTURE, call->record_function, call->number,
               "memory was not read before this call");
    return;
  }
  if (!close_gate(call->thread, call->number)) {
    write_note(NOTE_THREADS_BUSY, call->record_function, call->number,
               "another thread waits for the device; memory was not read before this call");
    return;
  }
  if (current_mode() != MODE_OPEN) { // closed while this thread waited at the gate
    go_inside(call);
    return;
  }
  if (variables_are_wanted())
    ask_for_variables();
  struct range_list list = {0};
  if (look)
    look_for_host_writes(call, &list, selection.reach == REACH_REACHABLE);
  if (is_any_launch(call->function)) {
    if (call->packed != NULL)
      memory_reach(call->packed, call->packed_bytes, &list);
    if (call->function->effect == EFFECT_GRAPH_LAUNCH)
      graph_reach(call->arguments[0], &list);
    memory_take_kind(selection.reach != REACH_LIVE, &list);
    references_take(&list);
  }
  for (unsigned n = 0; n < touch.count; n++)
    memory_take(touch.spans[n].address, touch.spans[n].bytes, &list);
  struct span span;
  for (uint64_t n = 0; call->function->effect == EFFECT_CUSTOM && batch_span(call, n, &span); n++)
    if (span.address != 0)
      memory_take(span.address, span.bytes, &list);
  if (selection.reach == REACH_REACHABLE && touch.host_bytes != NULL)
    host_bytes_reach(call, &touch, &list);
  if (list.count > 0 || source_is_stale)
    copy_contents(call->thread, &list, MOMENT_BEFORE, call->number, selection.reach == REACH_REACHABLE);
  go_inside(call);
  list_free(&list);
}

static void copy_before_it_ends(struct call *call, enum list_filter filter, uint64_t value, uint64_t bytes) {
  if (value == 0 || !memory_has_touched(filter, value, bytes))
    return;
  if (atomic_load(&captures_under_way) > 0) {
    write_note(NOTE_STREAM_CAPTURE, call->record_function, call->number,
               "memory was not read before it was freed");
    return;
  }
  if (!close_gate(call->thread, call->number)) {
    write_note(NOTE_THREADS_BUSY, call->record_function, call->number,
               "another thread waits for the device; memory was not read before it was freed");
    return;
  }
  if (current_mode() != MODE_OPEN) {
    go_inside(call);
    return;
  }
  struct range_list list = {0};
  memory_list_touched(filter, value, bytes, &list);
  copy_contents(call->thread, &list, MOMENT_AFTER, call->number - 1, false);
  go_inside(call);
  list_free(&list);
}

static void copy_before_graph_ends_it(struct call *call) {
  struct range_list ending = {0};
  graph_ending_memory(call->arguments[0], &ending);
  for (size_t n = 0; n < ending.count; n++) {
    copy_before_it_ends(call, LIST_BY_SPAN, ending.items[n].base, 1);
    if (call->inside)
      count_outside(call->thread);
    call->inside = false;
  }
  list_free(&ending);
}

static void prepare_touched_memory(struct call *call) {
  copy_before_first_touch(call);
  if (may_write_host_memory_later(call)) {
    atomic_store(&host_memory_is_pending, true);
    device_may_write_host_memory();
  }
}

void prepare_memory(struct call *call) {
  bool open = current_mode() == MODE_OPEN;
  if (call->function->effect == EFFECT_LAUNCH) { // the most frequent by far
    if (open)
      prepare_touched_memory(call);
    return;
  }
  uint64_t address = term_value(call, &call->function->effect_terms[0]);
  uint64_t bytes = term_value(call, &call->function->effect_terms[1]);
  switch (call->function->effect) {
  case EFFECT_FREE:
  case EFFECT_HOST_FREE:
  case EFFECT_HOST_UNREGISTER: {
    struct range range;
    if (memory_find_allocation(address, &range) && range.base == address) {
      call->serial = range.serial;
      if (open)
        copy_before_it_ends(call, LIST_BY_SPAN, address, range.bytes);
    }
    break;
  }
  case EFFECT_UNMAP:
    if (open)
      copy_before_it_ends(call, LIST_BY_SPAN, address, bytes);
    break;
  case EFFECT_DESTROY:
    if (open && (call->function->id == ID_cuModuleUnload || call->function->id == ID_cuLibraryUnload))
      copy_before_it_ends(call, LIST_BY_OWNER, address, 0);
    if (call->function->id == ID_cuArrayDestroy || call->function->id == ID_cuMipmappedArrayDestroy) {
      call->ending_array = array_base(address, call->function->id == ID_cuMipmappedArrayDestroy);
      if (open)
        copy_before_it_ends(call, LIST_BY_SPAN, call->ending_array, 1);
    }
    break;
  case EFFECT_END_OF_CONTEXT:
    call->ending_context = context_that_ends(call);
    if (open)
      copy_before_it_ends(call, LIST_BY_CONTEXT, call->ending_context, 0);
    break;
  default:
    if (!open)
      break;
    if (call->function->effect == EFFECT_GRAPH_LAUNCH)
      copy_before_graph_ends_it(call);
    prepare_touched_memory(call);
  }
}
