// What a launch of an executable graph means: the kernels in it, the memory that it reaches, and the memory
// that it allocates and frees.
#include "driver/real.h"
#include "graph/description.h"
#include "memory/memory.h"
#include "objects/objects.h"
#include "record/encode.h"

bool graph_matters(struct thread *thread, uint64_t handle) {
  lose_time();
  int now = current_mode();
  if (now == MODE_INERT || now == MODE_DONE || thread->depth > 0)
    return false;
  if (UNLIKELY(now == MODE_OPEN)) // a window has opened since enter_closed looked
    return true;
  struct executable_graph *graph = find_graph(handle);
  return graph != NULL && atomic_load_explicit(&graph->matters, memory_order_relaxed);
}

static bool is_counted(const struct graph_node *node) {
  return node->kernel != NULL && !node->disabled && kernel_matches(node->kernel);
}

void visit_matching_kernels(uint64_t handle,
                            void (*visit)(struct kernel *kernel, const uint32_t geometry[7], void *state),
                            void *state) {
  HOLD(graphs_lock);
  struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++)
    if (is_counted(&graph->nodes.items[n]))
      visit(graph->nodes.items[n].kernel, graph->nodes.items[n].geometry, state);
}

uint32_t kernels_in_graph(uint64_t handle) {
  HOLD(graphs_lock);
  const struct executable_graph *graph = find_graph(handle);
  return graph != NULL ? graph->kernels : 0;
}

void graph_wants_variables(uint64_t handle) {
  uint64_t context = current_context();
  HOLD(graphs_lock);
  const struct executable_graph *graph = find_graph(handle);
  if (graph == NULL || graph->checked == memory_state())
    return;
  for (size_t n = 0; n < graph->nodes.count; n++)
    if (graph->nodes.items[n].kernel != NULL)
      want_variables(graph->nodes.items[n].kernel, context);
}

static bool node_reaches_untouched(const struct graph_node *node) {
  if (node->word_bytes > 0 && memory_points_to_untouched(node->words, node->word_bytes))
    return true;
  for (uint32_t n = 0; n < node->span_count; n++)
    if (memory_has_untouched(node->spans[n].address, node->spans[n].bytes))
      return true;
  return false;
}

bool graph_reaches_untouched(uint64_t handle) {
  HOLD(graphs_lock);
  struct executable_graph *graph = find_graph(handle);
  uint64_t state = memory_state();
  if (graph == NULL || graph->checked == state)
    return false;
  for (size_t n = 0; n < graph->nodes.count; n++)
    if (node_reaches_untouched(&graph->nodes.items[n]))
      return true;
  graph->checked = state;
  return false;
}

void graph_reach(uint64_t handle, struct range_list *reached) {
  HOLD(graphs_lock);
  const struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    if (node->word_bytes > 0)
      memory_reach(node->words, node->word_bytes, reached);
    for (uint32_t s = 0; s < node->span_count; s++)
      memory_take(node->spans[s].address, node->spans[s].bytes, reached);
  }
}

// Memory that a launch frees, or allocates anew: the last moment to read it.
void graph_ending_memory(uint64_t handle, struct range_list *ending) {
  HOLD(graphs_lock);
  const struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    struct range range;
    const struct graph_node *node = &graph->nodes.items[n];
    if (is_left_over(&graph->nodes, node) && memory_find(node->spans[0].address, &range) &&
        range.state == RANGE_TOUCHED)
      list_append(ending, &range);
  }
}

void follow_graph_launch(uint64_t handle) {
  uint64_t context = current_context();
  HOLD(graphs_lock);
  const struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    if (!is_left_over(&graph->nodes, node))
      continue;
    if (node->type == NODE_MEM_ALLOC)
      memory_add(
          (struct range){.base = node->spans[0].address, .bytes = node->spans[0].bytes, .context = context});
    else
      memory_remove(node->spans[0].address, 0);
  }
}

// Host memory that copy nodes read and that is in no captured range: u64 address, u64 bytes, and the bytes.
void graph_launch_enter(struct call *call) {
  enum { MAX_HOST_BYTES = 64 << 20 };
  uint8_t *bytes = NULL;
  size_t length = 0;
  HOLD(graphs_lock);
  const struct executable_graph *graph = find_graph(call->arguments[0]);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    struct range range;
    if (!node->host_source || memory_find(node->spans[0].address, &range))
      continue;
    struct span source = node->spans[0];
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
  if (length > 0)
    attach_unsafe(call, 0, 1, bytes, length);
  free(bytes);
}
