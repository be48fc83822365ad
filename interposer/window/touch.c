// What a call may touch, and the copies that are made before a first touch and before memory ends.
#include "arguments/arguments.h"
#include "base/selection.h"
#include "contents/contents.h"
#include "graph/graph.h"
#include "memory/arrays.h"
#include "objects/objects.h"
#include "record/encode.h"
#include "window/window.h"

// What a call may read or write, besides what kernel parameters reach.
struct touch {
  const struct call *call;
  struct span spans[3]; // and those of a batch, one after another
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
  struct touch touch = {.call = call};
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
      touch.host_bytes = pointer_argument(call, n);
      touch.host_length = bytes;
    }
  }
  return touch;
}

// False: there are no more.
static bool span_at(const struct touch *touch, uint64_t n, struct span *span) {
  if (n >= touch->count)
    return touch->call->function->effect == EFFECT_CUSTOM && batch_span(touch->call, n - touch->count, span);
  *span = touch->spans[n];
  return true;
}

static bool any_span(const struct touch *touch, bool (*is_so)(uint64_t address, uint64_t bytes)) {
  struct span span;
  bool found = false;
  for (uint64_t n = 0; !found && span_at(touch, n, &span); n++)
    found = is_so(span.address, span.bytes);
  return found;
}

// Pointers in what the host sends: a table of pointers may be filled inside the window. `reached` NULL: only
// asks.
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
  if (launch && memory_has_untouched_of(selection.reach != REACH_LIVE))
    return true;
  if (any_span(touch, memory_has_untouched))
    return true;
  return selection.reach == REACH_REACHABLE && touch->host_bytes != NULL &&
         host_bytes_reach(call, touch, NULL);
}

// The bytes of a copy to the device are recorded when it is called. Where they are in pinned or managed
// memory that earlier work may still be writing, that work has to end first.
static bool source_may_change(const struct touch *touch) {
  struct range range;
  return touch->host_bytes != NULL && atomic_load(&host_memory_is_pending) &&
         memory_find((uint64_t)(uintptr_t)touch->host_bytes, &range) &&
         (range.kind == RANGE_HOST || range.kind == RANGE_MANAGED);
}

// Whether the call may read what the host has written into memory that was read before.
static bool reads_host_memory(const struct touch *touch) {
  return host_writes_matter() && (is_any_launch(touch->call->function) || any_span(touch, memory_is_on_host));
}

static bool may_write_host_memory_later(const struct call *call) {
  const struct function *function = call->function;
  if (is_any_launch(function))
    return memory_is_touched_on_host();
  return (function->effect == EFFECT_READ || function->effect == EFFECT_COPY ||
          function->effect == EFFECT_CUSTOM) &&
         !(function->flags & FLAG_SYNCHRONIZES);
}

// From owning the gate to being inside the driver, with no moment between in which another may close the
// gate.
static void go_inside(struct call *call) {
  count_inside(call->thread);
  call->inside = true;
  open_gate(call->thread);
}

// Closes the gate. False: memory cannot be read, which a note says; or the window closed while this thread
// waited.
static bool begin_to_read(struct call *call, const char *until) {
  if (atomic_load(&captures_under_way) > 0) {
    write_note(NOTE_STREAM_CAPTURE, call->record_function, call->number, "memory was not read before %s",
               until);
    return false;
  }
  if (!close_gate(call->thread, call->number)) {
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
               "another thread waits for the device; memory was not read before %s", until);
    return false;
  }
  if (current_mode() != MODE_OPEN)
    go_inside(call);
  return !call->inside;
}

static void copy_before_first_touch(struct call *call) {
  struct touch touch = touch_of(call);
  struct span span;
  if (call->function->effect == EFFECT_LAUNCH)
    want_variables_of_launch(call);
  if (call->function->effect == EFFECT_GRAPH_LAUNCH)
    graph_wants_variables(call->arguments[0]);
  if (memory_has_blocks()) {
    hints_for_launch(call);
    for (uint64_t n = 0; span_at(&touch, n, &span); n++)
      memory_cover(span.address, span.bytes);
  }
  bool source_is_stale = source_may_change(&touch);
  bool look = atomic_load(&captures_under_way) == 0 && reads_host_memory(&touch);
  if ((!source_is_stale && !look && !touches_something_new(call, &touch)) ||
      !begin_to_read(call, "this call"))
    return;
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
    memory_take_of(selection.reach != REACH_LIVE, &list);
  }
  for (uint64_t n = 0; span_at(&touch, n, &span); n++)
    memory_take(span.address, span.bytes, &list);
  if (selection.reach == REACH_REACHABLE && touch.host_bytes != NULL)
    host_bytes_reach(call, &touch, &list);
  if (list.count > 0 || source_is_stale)
    copy_contents(&list, MOMENT_BEFORE, call->number, selection.reach == REACH_REACHABLE);
  go_inside(call);
  list_free(&list);
}

static void copy_before_it_ends(struct call *call, enum list_filter filter, uint64_t value, uint64_t bytes) {
  struct range_list list = {0};
  if (value != 0)
    memory_list_touched(filter, value, bytes, &list);
  if (list.count > 0 && begin_to_read(call, "it was freed")) {
    list.count = 0; // others may have read it meanwhile
    memory_list_touched(filter, value, bytes, &list);
    look_before_end(call->number);
    copy_contents(&list, MOMENT_AFTER, call->number - 1, false);
    go_inside(call);
  }
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

static bool ends_memory(const struct function *function) {
  return function->effect == EFFECT_FREE || function->effect == EFFECT_UNMAP ||
         (function->effect == EFFECT_DESTROY && unloads(function));
}

static void land_flights(const struct function *function, uint64_t address, uint64_t bytes) {
  struct range range;
  flights_land();
  if (function->effect == EFFECT_DESTROY)
    tell_ring(0, 0);
  else if (function->effect == EFFECT_UNMAP)
    tell_ring(address, bytes);
  else if (memory_find_allocation(address, &range))
    tell_ring(range.base, range.bytes);
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
  enum handle_type ended = ended_by(call->function);
  if (!open && ends_memory(call->function))
    land_flights(call->function, address, bytes);
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
    if (open && unloads(call->function))
      copy_before_it_ends(call, LIST_BY_OWNER, address, 0);
    if (ended == HANDLE_CUarray || ended == HANDLE_CUmipmappedArray)
      call->ending_array = array_base(address, ended == HANDLE_CUmipmappedArray);
    if (open)
      copy_before_it_ends(call, LIST_BY_SPAN, call->ending_array, 1);
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
