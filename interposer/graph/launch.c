// What a launch of an executable graph means: the kernels in it, the memory that it reaches, and the memory
// that it allocates and frees.
#include "graph/executable.h"

#include "base/bytes.h"
#include "base/state.h"
#include "base/thread.h"
#include "driver/ask.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "memory/reach.h"
#include "objects/kernels.h"
#include "objects/modules.h"
#include "record/encode.h"

#include <stdlib.h>
#include <string.h>

bool graph_matters(struct thread *thread, uint64_t handle) {
  if (current_mode() != MODE_CLOSED || thread->depth > 0)
    return false;
  struct executable_graph *graph = find_graph(handle);
  return graph != NULL && atomic_load_explicit(&graph->matters, memory_order_relaxed);
}

static bool is_counted(const struct graph_node *node) {
  return node->kernel != NULL && !node->disabled && kernel_matches(node->kernel);
}

void visit_matching_kernels(uint64_t handle,
                            void (*visit)(struct kernel *kernel, const uint32_t geometry[7], void *state),
                            void *state) {
  struct executable_graph *graph = hold_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++)
    if (is_counted(&graph->nodes.items[n]))
      visit(graph->nodes.items[n].kernel, graph->nodes.items[n].geometry, state);
  release_graphs();
}

uint32_t kernels_in_graph(uint64_t handle) {
  struct executable_graph *graph = hold_graph(handle);
  uint32_t kernels = graph != NULL ? graph->kernels : 0;
  release_graphs();
  return kernels;
}

void graph_wants_variables(uint64_t handle) {
  struct kernel **kernels = NULL;
  size_t count = 0;
  struct executable_graph *graph = hold_graph(handle);
  if (graph != NULL && graph->checked != memory_state())
    kernels = malloc((graph->nodes.count + 1) * sizeof *kernels);
  for (size_t n = 0; kernels != NULL && n < graph->nodes.count; n++)
    if (graph->nodes.items[n].kernel != NULL)
      kernels[count++] = graph->nodes.items[n].kernel;
  release_graphs();
  for (size_t n = 0; n < count; n++) // asks the driver which context is current
    want_variables(kernels[n]);
  free(kernels);
}

static bool node_reaches_untouched(const struct graph_node *node) {
  if (node->word_bytes > 0 && memory_points_to_untouched(node->words, node->word_bytes))
    return true;
  for (int n = 0; n < 2; n++)
    if (node->spans[n].bytes > 0 && memory_has_untouched(node->spans[n].address, node->spans[n].bytes))
      return true;
  for (uint32_t n = 0; n < node->operation_count; n++)
    if (memory_has_untouched(node->operations[n].address, node->operations[n].bytes))
      return true;
  return false;
}

bool graph_reaches_untouched(uint64_t handle) {
  struct executable_graph *graph = hold_graph(handle);
  uint64_t state = memory_state();
  bool found = false;
  if (graph != NULL && graph->checked != state) {
    for (size_t n = 0; !found && n < graph->nodes.count; n++)
      found = node_reaches_untouched(&graph->nodes.items[n]);
    if (!found)
      graph->checked = state;
  }
  release_graphs();
  return found;
}

void graph_reach(uint64_t handle, struct range_list *reached) {
  struct executable_graph *graph = hold_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    if (node->word_bytes > 0)
      memory_reach(node->words, node->word_bytes, reached);
    for (int s = 0; s < 2; s++)
      if (node->spans[s].bytes > 0)
        memory_take(node->spans[s].address, node->spans[s].bytes, reached);
    for (uint32_t o = 0; o < node->operation_count; o++)
      memory_take(node->operations[o].address, node->operations[o].bytes, reached);
  }
  release_graphs();
}

// Memory that a launch frees, or allocates anew: the last moment to read it.
void graph_ending_memory(uint64_t handle, struct range_list *ending) {
  struct executable_graph *graph = hold_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    struct range range;
    const struct graph_node *node = &graph->nodes.items[n];
    if (is_left_over(&graph->nodes, node) && memory_find(node->spans[0].address, &range) &&
        range.state == RANGE_TOUCHED)
      list_append(ending, &range);
  }
  release_graphs();
}

void follow_graph_launch(uint64_t handle) {
  uint64_t context = current_context();
  struct executable_graph *graph = hold_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    if (!is_left_over(&graph->nodes, node))
      continue;
    if (node->type == NODE_MEM_ALLOC)
      memory_add(node->spans[0].address, node->spans[0].bytes, RANGE_DEVICE, context, 0);
    else
      memory_remove(node->spans[0].address, 0);
  }
  release_graphs();
}

// Host memory that copy nodes read and that is in no captured range: u64 address, u64 bytes, and the bytes.
void graph_launch_enter(struct call *call) {
  enum { MAX_HOST_BYTES = 64 << 20 };
  uint8_t *bytes = NULL;
  size_t length = 0;
  struct executable_graph *graph = hold_graph(call->arguments[0]);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    struct span source = node->spans[0];
    struct range range;
    if (!node->host_source || source.bytes == 0 || memory_find(source.address, &range))
      continue;
    size_t padded = (source.bytes + 7) & ~(uint64_t)7;
    uint8_t *grown = padded <= MAX_HOST_BYTES - length ? realloc(bytes, length + 16 + padded) : NULL;
    if (grown == NULL)
      break;
    bytes = grown;
    memset(bytes + length, 0, 16 + padded);
    memcpy(bytes + length, (uint64_t[2]){source.address, source.bytes}, 16);
    if (read_memory(bytes + length + 16, (const void *)(uintptr_t)source.address, source.bytes))
      length += 16 + padded;
  }
  release_graphs();
  if (length > 0)
    attach_copy(call, 0, 1, bytes, length);
  free(bytes);
}
