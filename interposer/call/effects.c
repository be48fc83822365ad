#include "call/effects.h"

#include "arguments/arguments.h"
#include "base/state.h"
#include "contents/idle.h"
#include "driver/ask.h"
#include "graph/graph.h"
#include "memory/arrays.h"
#include "memory/memory.h"
#include "memory/physical.h"
#include "memory/textures.h"
#include "objects/array_handles.h"
#include "objects/contexts.h"
#include "objects/kernels.h"
#include "record/encode.h"

static void follow_effect(const struct call *call) {
  const struct function *function = call->function;
  uint64_t value[2] = {term_value(call, &function->effect_terms[0]),
                       term_value(call, &function->effect_terms[1])};
  switch (function->effect) {
  case EFFECT_ALLOC:
    memory_add(value[0], value[1], RANGE_DEVICE, current_context(), 0);
    // The current pool of a device, or one that is named, may hold managed or host memory.
    if (function->id == ID_cuMemAllocFromPoolAsync && is_host_visible(value[0]))
      memory_make_host_visible(value[0]);
    break;
  case EFFECT_MANAGED_ALLOC:
    memory_add(value[0], value[1], RANGE_MANAGED, current_context(), 0);
    break;
  case EFFECT_MAP:
    memory_add(value[0], value[1], RANGE_DEVICE, current_context(), 0);
    if (function->id == ID_cuMemMap) {
      bool on_host;
      memory_set_physical(value[0], physical_number(call->arguments[3], &on_host));
      if (on_host)
        memory_make_host_visible(value[0]);
    }
    break;
  case EFFECT_HOST_ALLOC:
  case EFFECT_HOST_REGISTER:
    memory_add(value[0], value[1], RANGE_HOST, current_context(), 0);
    break;
  case EFFECT_FREE:
  case EFFECT_HOST_FREE:
  case EFFECT_HOST_UNREGISTER:
    memory_remove(value[0], call->serial);
    break;
  case EFFECT_UNMAP: {
    struct range_list list = {0};
    struct range range;
    for (uint64_t at = value[0]; at < value[0] + value[1] && memory_find(at, &range);
         at = range.base + range.bytes)
      list_append(&list, &range);
    for (size_t n = 0; n < list.count; n++)
      memory_remove(list.items[n].base, list.items[n].serial);
    list_free(&list);
    break;
  }
  case EFFECT_DESTROY:
    if (function->id == ID_cuModuleUnload || function->id == ID_cuLibraryUnload)
      memory_remove_owner(value[0]);
    if (call->ending_array != 0)
      arrays_remove(call->ending_array);
    break;
  case EFFECT_END_OF_CONTEXT:
    if (call->ending_context != 0) {
      memory_remove_context(call->ending_context);
      arrays_remove_context(call->ending_context);
      objects_remove_context(call->ending_context);
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
  note_old_launch(call);
  note_streams(call);
  note_physical(call);
  note_contexts(call);
}
