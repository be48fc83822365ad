// What a call changes of memory and objects, by its effect and by what its row in the table names.
#include "arguments/arguments.h"
#include "call/call.h"
#include "contents/contents.h"
#include "driver/real.h"
#include "graph/graph.h"
#include "memory/arrays.h"
#include "objects/objects.h"
#include "record/encode.h"

// ---- what rows name -----------------------------------------------------------------------------

static const struct {
  void (*enter)(struct call *call);
  void (*leave)(struct call *call);
  void (*after)(const struct call *call);
} readers[FUNCTION_COUNT] = {
#define READERS(symbol, enter, leave, after) [FUNCTION_##symbol] = {enter, leave, after},
#include "generated/functions.inc"
};

void row_enter(struct call *call) {
  void (*enter)(struct call *) = readers[call->function - functions].enter;
  if (enter != NULL)
    enter(call);
}

void row_leave(struct call *call, int result) {
  void (*leave)(struct call *) = readers[call->function - functions].leave;
  if (leave != NULL && result == SUCCESS)
    leave(call);
}

// ---- effects ------------------------------------------------------------------------------------

static void add_memory(const struct call *call, uint64_t base, uint64_t bytes, enum range_kind kind) {
  struct range range = {.base = base, .bytes = bytes, .kind = (uint8_t)kind, .context = current_context()};
  int physical = position_of_handle(call->function, HANDLE_CUmemGenericAllocationHandle);
  if (physical >= 0)
    range.physical = physical_number(call->arguments[physical], &range.host_visible);
  // The current pool of a device, or one that is named, may hold managed or host memory.
  else if (position_of_handle(call->function, HANDLE_CUmemoryPool) >= 0)
    range.host_visible = is_host_visible(base);
  memory_add(range);
}

static void follow_effect(const struct call *call) {
  const struct function *function = call->function;
  uint64_t value[2] = {term_value(call, &function->effect_terms[0]),
                       term_value(call, &function->effect_terms[1])};
  switch (function->effect) {
  case EFFECT_ALLOC:
  case EFFECT_MAP:
    add_memory(call, value[0], value[1], RANGE_DEVICE);
    break;
  case EFFECT_MANAGED_ALLOC:
    add_memory(call, value[0], value[1], RANGE_MANAGED);
    break;
  case EFFECT_HOST_ALLOC:
  case EFFECT_HOST_REGISTER:
    add_memory(call, value[0], value[1], RANGE_HOST);
    break;
  case EFFECT_FREE:
  case EFFECT_HOST_FREE:
  case EFFECT_HOST_UNREGISTER:
    memory_remove(value[0], call->serial);
    break;
  case EFFECT_UNMAP:
    memory_remove_all(LIST_BY_SPAN, value[0], value[1]);
    break;
  case EFFECT_DESTROY:
    if (unloads(function))
      memory_remove_all(LIST_BY_OWNER, value[0], 0);
    if (call->ending_array != 0)
      arrays_remove(call->ending_array);
    break;
  case EFFECT_END_OF_CONTEXT:
    if (call->ending_context != 0) {
      memory_remove_all(LIST_BY_CONTEXT, call->ending_context, 0);
      arrays_remove_context(call->ending_context);
      forget_kernels_of_context(call->ending_context);
    }
    break;
  case EFFECT_BEGIN_CAPTURE:
    atomic_fetch_add(&captures_under_way, 1);
    break;
  case EFFECT_GRAPH_LAUNCH:
    follow_graph_launch(value[0]);
    break;
  default: // reads and writes were looked at before the call; GLOBAL and IMPORT are custom
    break;
  }
}

void follow_effects(const struct call *call) {
  if (!call->in_capture)
    follow_effect(call);
  follow_arrays(call);
  note_kernels(call);
  note_streams(call);
  if (readers[call->function - functions].after != NULL)
    readers[call->function - functions].after(call);
  note_contexts(call);
}
