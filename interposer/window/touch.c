// What a call may touch, and the copies that are made before a first touch and before memory ends.
#include "window/touch.h"

#include "arguments/arguments.h"
#include "base/bytes.h"
#include "base/selection.h"
#include "base/state.h"
#include "contents/contents.h"
#include "contents/gate.h"
#include "contents/host_writes.h"
#include "graph/graph.h"
#include "memory/arrays.h"
#include "memory/blocks.h"
#include "memory/hints.h"
#include "memory/memory.h"
#include "memory/reach.h"
#include "memory/textures.h"
#include "objects/contexts.h"
#include "objects/modules.h"
#include "record/encode.h"
#include "record/writer.h"

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

// The bytes of a copy to the device are recorded when it is called. Where they are in pinned or managed
// memory that earlier work may still be writing, that work has to end first.
static bool source_may_change(const struct touch *touch) {
  struct range range;
  return touch->host_bytes != NULL && atomic_load(&host_memory_is_pending) &&
         memory_find((uint64_t)(uintptr_t)touch->host_bytes, &range) &&
         (range.kind == RANGE_HOST || range.kind == RANGE_MANAGED);
}

// Whether the call may read what the host has written into memory that was read before.
static bool reads_host_memory(const struct call *call, const struct touch *touch) {
  if (!host_writes_matter())
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
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
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
    copy_contents(&list, MOMENT_BEFORE, call->number, selection.reach == REACH_REACHABLE);
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
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
               "another thread waits for the device; memory was not read before it was freed");
    return;
  }
  if (current_mode() != MODE_OPEN) {
    go_inside(call);
    return;
  }
  struct range_list list = {0};
  memory_list_touched(filter, value, bytes, &list);
  look_before_end(call->number);
  copy_contents(&list, MOMENT_AFTER, call->number - 1, false);
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
