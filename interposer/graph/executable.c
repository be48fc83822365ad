// Executable graphs: the kernels in them, what their nodes can touch, and what a launch of one means.
//
// A launch with no window open asks the table and nothing else, so it is read without a lock: rows are never
// changed in place to mean another handle. What a row leads to is changed under the lock, which is never held
// across a call of the driver.
#define _GNU_SOURCE
#include "graph/description.h"

#include "custom/custom.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEAD = 1 }; // no handle is 1

struct graph_node {
  uint64_t handle;
  uint32_t type, depth; // depth: nodes that it is inside of
  bool disabled;
  struct kernel *kernel;
  uint32_t geometry[7];
  uint8_t *words; // packed kernel parameters
  uint32_t word_bytes;
  struct span spans[2]; // what a copy, a fill, an allocation or a free names; bytes 0: nothing
  bool host_source;     // the first of them may be host memory that the launch reads
  struct span *operations;
  uint32_t operation_count;
};

struct node_list {
  struct graph_node *items;
  size_t count, capacity;
  bool failed;
};

struct executable_graph {
  uint64_t handle;
  struct node_list nodes;
  atomic_bool matters; // to a launch while the window is closed
  uint32_t kernels;
  uint64_t checked; // the state of the memory's ranges in which all that it reaches had been touched; 0: none
};

struct graph_row {
  _Atomic uint64_t handle;
  struct executable_graph *graph;
};

struct graph_rows {
  size_t mask, used;
  struct graph_row items[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct graph_rows *) table;

// ---- nodes --------------------------------------------------------------------------------------

static void free_node(struct graph_node *node) {
  free(node->words);
  free(node->operations);
}

static void free_nodes(struct node_list *list) {
  for (size_t n = 0; n < list->count; n++)
    free_node(&list->items[n]);
  free(list->items);
  *list = (struct node_list){0};
}

static void *copy_of(const void *data, size_t bytes) {
  void *copy = bytes > 0 ? malloc(bytes) : NULL;
  if (copy != NULL)
    memcpy(copy, data, bytes);
  return copy;
}

static uint64_t word_at(const uint8_t *data, size_t offset) {
  uint64_t word;
  memcpy(&word, data + offset, 8);
  return word;
}

static void take_fill(struct graph_node *node, const uint8_t *member) {
  uint64_t pitch = word_at(member, 8), width = word_at(member, 24), height = word_at(member, 32);
  uint32_t element_bytes;
  memcpy(&element_bytes, member + 20, 4);
  uint64_t row = width * element_bytes;
  node->spans[0] = (struct span){word_at(member, 0), height > 1 ? pitch * (height - 1) + row : row};
}

static void take_operations(struct graph_node *node, const struct described_node *described) {
  uint32_t count = described->part_bytes[PART_OPERATIONS] / 48;
  node->operations = count > 0 ? calloc(count, sizeof *node->operations) : NULL;
  for (uint32_t n = 0; node->operations != NULL && n < count; n++) {
    uint32_t operation;
    const uint8_t *at = described->part[PART_OPERATIONS] + (size_t)n * 48;
    memcpy(&operation, at, 4);
    // CU_STREAM_MEM_OP_WAIT_VALUE_32, WRITE_VALUE_32, and 4, 5 for 64 bits; others name no address
    if (operation == 1 || operation == 2 || operation == 4 || operation == 5)
      node->operations[node->operation_count++] = (struct span){word_at(at, 8), 8};
  }
}

static bool take_node(const struct described_node *described, void *state) {
  struct node_list *list = state;
  if (list->count == list->capacity) {
    size_t capacity = list->capacity * 2 + 16;
    struct graph_node *grown = realloc(list->items, capacity * sizeof *grown);
    list->failed = grown == NULL;
    if (list->failed)
      return false;
    list->items = grown;
    list->capacity = capacity;
  }
  struct graph_node *node = &list->items[list->count++];
  *node =
      (struct graph_node){.handle = described->handle, .type = described->type, .depth = described->depth};
  const uint8_t *member = described->part[PART_PARAMETERS];
  if (member == NULL)
    return true;
  switch (described->type) {
  case NODE_KERNEL:
    node->kernel = kernel_of_handle(word_at(member, 0) != 0 ? word_at(member, 0) : word_at(member, 56));
    memcpy(node->geometry, member + 8, sizeof node->geometry);
    node->word_bytes = described->part[PART_BUFFER] != NULL ? described->part_bytes[PART_BUFFER] : 0;
    node->words = copy_of(described->part[PART_BUFFER], node->word_bytes);
    if (node->words == NULL)
      node->word_bytes = 0;
    break;
  case NODE_MEMCPY: {
    struct copy_3d_span spans = spans_of_3d(member + 16);
    node->spans[0] = spans.source;
    node->spans[1] = spans.destination;
    node->host_source = spans.host_source;
    break;
  }
  case NODE_MEMSET:
    take_fill(node, member);
    break;
  case NODE_MEMORY_ALLOCATE:
    node->spans[0] = (struct span){word_at(member, 112), word_at(member, 104)};
    break;
  case NODE_MEMORY_FREE:
    node->spans[0] = (struct span){word_at(member, 0), 1};
    break;
  case NODE_BATCH_MEMORY_OPERATIONS:
    take_operations(node, described);
    break;
  default:
    break;
  }
  return true;
}

static struct node_list nodes_of(const struct description *description) {
  struct node_list list = {0};
  if (!visit_nodes(description, take_node, &list))
    list.failed = true;
  return list;
}

// The content of `from` for the nodes from `first` on, which stay what they are: handle, depth, switched on
// or off. With another number of nodes than expected nothing is changed; the driver had paired them.
static void exchange(struct node_list *list, size_t first, size_t count, struct node_list *from) {
  if (from->failed || from->count != count)
    return;
  for (size_t n = 0; n < count; n++) {
    struct graph_node *old = &list->items[first + n], *new = &from->items[n];
    new->handle = old->handle;
    new->depth = old->depth;
    new->disabled = old->disabled;
    struct graph_node swapped = *old;
    *old = *new;
    *new = swapped;
  }
}

// ---- the table ----------------------------------------------------------------------------------

static size_t hash(uint64_t handle) { return (size_t)((handle * 0x9e3779b97f4a7c15u) >> 32); }

static struct graph_row *find_row(struct graph_rows *rows, uint64_t handle) {
  if (rows == NULL || handle <= DEAD)
    return NULL;
  for (size_t n = hash(handle);; n++) {
    struct graph_row *row = &rows->items[n & rows->mask];
    uint64_t found = atomic_load_explicit(&row->handle, memory_order_acquire);
    if (found == handle)
      return row;
    if (found == 0)
      return NULL;
  }
}

static struct executable_graph *find_graph(uint64_t handle) {
  struct graph_row *row = find_row(atomic_load_explicit(&table, memory_order_acquire), handle);
  return row != NULL ? row->graph : NULL;
}

static void insert_row(struct graph_rows *rows, struct executable_graph *graph) {
  size_t n = hash(graph->handle);
  while (atomic_load(&rows->items[n & rows->mask].handle) != 0)
    n++;
  rows->items[n & rows->mask].graph = graph;
  atomic_store_explicit(&rows->items[n & rows->mask].handle, graph->handle, memory_order_release);
  rows->used++;
}

// With the lock held. Readers may still be in the old table, so it is left as it is.
static struct graph_rows *with_room(void) {
  struct graph_rows *rows = atomic_load(&table);
  if (rows != NULL && rows->used * 2 < rows->mask)
    return rows;
  size_t live = 0, size = 64;
  for (size_t n = 0; rows != NULL && n <= rows->mask; n++)
    live += atomic_load(&rows->items[n].handle) > DEAD;
  while (size < live * 4)
    size *= 2;
  struct graph_rows *larger = calloc(1, sizeof *larger + size * sizeof(struct graph_row));
  if (larger == NULL)
    return NULL;
  larger->mask = size - 1;
  for (size_t n = 0; rows != NULL && n <= rows->mask; n++)
    if (atomic_load(&rows->items[n].handle) > DEAD)
      insert_row(larger, rows->items[n].graph);
  atomic_store_explicit(&table, larger, memory_order_release);
  return larger;
}

// The graph itself stays allocated, because a launch in another thread may be looking at it; what it holds
// goes.
static void forget_graph(uint64_t handle) {
  pthread_mutex_lock(&lock);
  struct graph_row *row = find_row(atomic_load(&table), handle);
  if (row != NULL) {
    atomic_store(&row->handle, DEAD);
    free_nodes(&row->graph->nodes);
  }
  pthread_mutex_unlock(&lock);
}

void reset_graphs_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  atomic_store(&table, NULL);
}

// ---- memory that a graph allocates --------------------------------------------------------------

static bool has_node(const struct node_list *list, uint32_t type, uint64_t address) {
  for (size_t n = 0; n < list->count; n++)
    if (list->items[n].type == type && list->items[n].spans[0].address == address)
      return true;
  return false;
}

// Memory that a launch leaves allocated, or that it frees though an earlier launch allocated it.
static bool is_left_over(const struct node_list *list, const struct graph_node *node) {
  return (node->type == NODE_MEMORY_ALLOCATE && !has_node(list, NODE_MEMORY_FREE, node->spans[0].address)) ||
         (node->type == NODE_MEMORY_FREE && !has_node(list, NODE_MEMORY_ALLOCATE, node->spans[0].address));
}

// With the lock held, after every change.
static void look_at_nodes(struct executable_graph *graph) {
  bool matters = false;
  graph->kernels = 0;
  graph->checked = 0;
  for (size_t n = 0; n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    graph->kernels += node->kernel != NULL && !node->disabled;
    matters = matters || (node->kernel != NULL && kernel_matches(node->kernel)) ||
              is_left_over(&graph->nodes, node);
  }
  atomic_store(&graph->matters, matters);
}

// ---- calls that make, change and end executable graphs ------------------------------------------

static bool makes_graph(unsigned id) {
  return id == ID_cuGraphInstantiate || id == ID_cuGraphInstantiate_v2 ||
         id == ID_cuGraphInstantiateWithFlags || id == ID_cuGraphInstantiateWithParams;
}

// The new parameters of one node; false when the call gives none.
static bool parameters_of_change(const struct call *call, struct node_parameters *parameters) {
  const uint64_t *arguments = call->arguments;
  const void *given = (const void *)(uintptr_t)arguments[2];
  *parameters = (struct node_parameters){0};
  if (call->function->id == ID_cuGraphExecEventRecordNodeSetEvent ||
      call->function->id == ID_cuGraphExecEventWaitNodeSetEvent) {
    parameters->type =
        call->function->id == ID_cuGraphExecEventWaitNodeSetEvent ? NODE_WAIT_EVENT : NODE_EVENT_RECORD;
    memcpy(parameters->member, &arguments[2], 8);
    return true;
  }
  if (given == NULL)
    return false;
  switch (call->function->id) {
  case ID_cuGraphExecKernelNodeSetParams:
    parameters->type = NODE_KERNEL;
    memcpy(parameters->member, given, 56);
    return true;
  case ID_cuGraphExecKernelNodeSetParams_v2:
    parameters->type = NODE_KERNEL;
    memcpy(parameters->member, given, 72);
    return true;
  case ID_cuGraphExecMemcpyNodeSetParams:
    parameters->type = NODE_MEMCPY;
    memcpy(parameters->member + 8, &arguments[3], 8);
    memcpy(parameters->member + 16, given, 200);
    return true;
  case ID_cuGraphExecMemsetNodeSetParams:
    parameters->type = NODE_MEMSET;
    memcpy(parameters->member, given, 40);
    memcpy(parameters->member + 40, &arguments[3], 8);
    return true;
  case ID_cuGraphExecHostNodeSetParams:
    parameters->type = NODE_HOST;
    memcpy(parameters->member, given, 16);
    return true;
  case ID_cuGraphExecBatchMemOpNodeSetParams:
    parameters->type = NODE_BATCH_MEMORY_OPERATIONS;
    memcpy(parameters->member, given, 32);
    return true;
  case ID_cuGraphExecNodeSetParams:
    memcpy(parameters, given, sizeof *parameters);
    return true;
  default:
    return false;
  }
}

// Before the driver is called: the graph may be changed or destroyed as soon as the call has returned.
void describe_graph_call(struct call *call) {
  struct node_parameters parameters;
  unsigned id = call->function->id;
  call->description = calloc(1, sizeof *call->description);
  if (call->description == NULL)
    return;
  if (makes_graph(id) || id == ID_cuGraphExecUpdate || id == ID_cuGraphExecUpdate_v2)
    describe_graph(call->description, call->arguments[1]);
  else if (id == ID_cuGraphExecChildGraphNodeSetParams)
    describe_graph(call->description, call->arguments[2]);
  else if (parameters_of_change(call, &parameters))
    describe_node(call->description, call->arguments[1], &parameters);
}

void graph_enter(struct call *call) {
  unsigned id = call->function->id;
  if (id == ID_cuGraphInstantiateWithParams && call->arguments[2] != 0)
    attach(call, 2, 0, (const void *)(uintptr_t)call->arguments[2], 32);
  const struct description *description = call->description;
  if (description == NULL || description->bytes == NULL)
    return;
  unsigned parameter = makes_graph(id) || id == ID_cuGraphExecUpdate || id == ID_cuGraphExecUpdate_v2 ? 1 : 2;
  attach_copy(call, parameter, 1, description->bytes, description->length);
}

static void add_graph(uint64_t handle, struct node_list nodes) {
  forget_graph(handle); // its end was not seen
  pthread_mutex_lock(&lock);
  struct graph_rows *rows = with_room();
  struct executable_graph *graph = rows != NULL ? calloc(1, sizeof *graph) : NULL;
  if (graph != NULL) {
    graph->handle = handle;
    graph->nodes = nodes;
    look_at_nodes(graph);
    insert_row(rows, graph);
  }
  pthread_mutex_unlock(&lock);
  if (graph == NULL)
    free_nodes(&nodes);
}

static void change_graph(const struct call *call, struct node_list *nodes) {
  unsigned id = call->function->id;
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(call->arguments[0]);
  struct node_list *list = graph != NULL ? &graph->nodes : NULL;
  if (graph != NULL && (id == ID_cuGraphExecUpdate || id == ID_cuGraphExecUpdate_v2)) {
    exchange(list, 0, list->count, nodes);
  } else if (graph != NULL) {
    size_t n = 0;
    while (n < list->count && list->items[n].handle != call->arguments[1])
      n++;
    if (n < list->count && id == ID_cuGraphNodeSetEnabled) {
      list->items[n].disabled = (uint32_t)call->arguments[2] == 0;
    } else if (n < list->count && id == ID_cuGraphExecChildGraphNodeSetParams) {
      size_t end = n + 1;
      while (end < list->count && list->items[end].depth > list->items[n].depth)
        end++;
      exchange(list, n + 1, end - n - 1, nodes);
    } else if (n < list->count) {
      exchange(list, n, 1, nodes);
    }
  }
  if (graph != NULL)
    look_at_nodes(graph);
  pthread_mutex_unlock(&lock);
}

void follow_graph_call(struct call *call, int result) {
  follow_conditions(call, result);
  if (result == SUCCESS && call->function->id == ID_cuGraphExecDestroy) {
    forget_graph(call->arguments[0]);
    forget_graph_changes(call->arguments[0]);
  }
  if (call->description == NULL)
    return;
  if (result == SUCCESS) {
    struct node_list nodes = nodes_of(call->description);
    if (makes_graph(call->function->id) && call->arguments[0] != 0) {
      uint64_t handle;
      memcpy(&handle, (const void *)(uintptr_t)call->arguments[0], 8);
      add_graph(handle, nodes);
      forget_graph_changes(handle);
    } else {
      change_graph(call, &nodes);
      free_nodes(&nodes);
      if (call->waits_for_window)
        keep_graph_change(call);
    }
  }
  free_description(call->description);
  free(call->description);
  call->description = NULL;
}

// ---- launches -----------------------------------------------------------------------------------

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
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++)
    if (is_counted(&graph->nodes.items[n]))
      visit(graph->nodes.items[n].kernel, graph->nodes.items[n].geometry, state);
  pthread_mutex_unlock(&lock);
}

uint32_t kernels_in_graph(uint64_t handle) {
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
  uint32_t kernels = graph != NULL ? graph->kernels : 0;
  pthread_mutex_unlock(&lock);
  return kernels;
}

void graph_wants_variables(uint64_t handle) {
  struct kernel **kernels = NULL;
  size_t count = 0;
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
  if (graph != NULL && graph->checked != memory_state())
    kernels = malloc((graph->nodes.count + 1) * sizeof *kernels);
  for (size_t n = 0; kernels != NULL && n < graph->nodes.count; n++)
    if (graph->nodes.items[n].kernel != NULL)
      kernels[count++] = graph->nodes.items[n].kernel;
  pthread_mutex_unlock(&lock);
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
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
  uint64_t state = memory_state();
  bool found = false;
  if (graph != NULL && graph->checked != state) {
    for (size_t n = 0; !found && n < graph->nodes.count; n++)
      found = node_reaches_untouched(&graph->nodes.items[n]);
    if (!found)
      graph->checked = state;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

void graph_reach(uint64_t handle, struct range_list *reached) {
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
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
  pthread_mutex_unlock(&lock);
}

// Memory that a launch frees, or allocates anew: the last moment to read it.
void graph_ending_memory(uint64_t handle, struct range_list *ending) {
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    struct range range;
    const struct graph_node *node = &graph->nodes.items[n];
    if (is_left_over(&graph->nodes, node) && memory_find(node->spans[0].address, &range) &&
        range.state == RANGE_TOUCHED)
      list_append(ending, &range);
  }
  pthread_mutex_unlock(&lock);
}

void follow_graph_launch(uint64_t handle) {
  uint64_t context = current_context();
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(handle);
  for (size_t n = 0; graph != NULL && n < graph->nodes.count; n++) {
    const struct graph_node *node = &graph->nodes.items[n];
    if (!is_left_over(&graph->nodes, node))
      continue;
    if (node->type == NODE_MEMORY_ALLOCATE)
      memory_add(node->spans[0].address, node->spans[0].bytes, RANGE_DEVICE, context, 0);
    else
      memory_remove(node->spans[0].address, 0);
  }
  pthread_mutex_unlock(&lock);
}

// Host memory that copy nodes read and that is in no captured range: u64 address, u64 bytes, and the bytes.
void graph_launch_enter(struct call *call) {
  enum { MAX_HOST_BYTES = 64 << 20 };
  uint8_t *bytes = NULL;
  size_t length = 0;
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = find_graph(call->arguments[0]);
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
  pthread_mutex_unlock(&lock);
  if (length > 0)
    attach_copy(call, 0, 1, bytes, length);
  free(bytes);
}
