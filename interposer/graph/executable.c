// Which executable graphs there are, their nodes, and the calls that make, change and end them.
//
// What a row of the table leads to is changed under the lock, never held across a call of the driver.
#include "base/handles.h"
#include "driver/real.h"
#include "graph/description.h"
#include "objects/objects.h"
#include "record/encode.h"

// ---- nodes, and what a launch reaches through them ----------------------------------------------

bool add_node(struct node_list *list, const struct graph_node *node) {
  if (!HAS_ROOM(list->items, list->count, list->capacity))
    return false;
  list->items[list->count++] = *node;
  return true;
}

bool add_span(struct graph_node *node, struct span span) {
  struct span *grown = realloc(node->spans, (node->span_count + 1) * sizeof *grown);
  if (grown == NULL)
    return false;
  node->spans = grown;
  node->spans[node->span_count++] = span;
  return true;
}

void free_node(struct graph_node *node) {
  free(node->words);
  free(node->spans);
  drop_changes(&node->changes);
}

void free_nodes(struct node_list *list) {
  for (size_t n = 0; n < list->count; n++)
    free_node(&list->items[n]);
  free(list->items);
  *list = (struct node_list){0};
}

// The content of `from` for the nodes from `first` on, which stay what they are: handle, depth, switched on
// or off, and their changes. With another number of nodes than expected nothing is changed.
static void exchange_nodes(struct node_list *list, size_t first, size_t count, struct node_list *from) {
  if (from->count != count)
    return;
  for (size_t n = 0; n < count; n++) {
    struct graph_node *old = &list->items[first + n], *new = &from->items[n];
    new->handle = old->handle;
    new->depth = old->depth;
    new->disabled = old->disabled;
    new->changes = old->changes;
    struct graph_node swapped = *old;
    *old = *new;
    *new = swapped;
    new->changes = NULL;
  }
}

static bool has_node(const struct node_list *list, uint32_t type, uint64_t address) {
  for (size_t n = 0; n < list->count; n++)
    if (list->items[n].type == type && list->items[n].span_count > 0 &&
        list->items[n].spans[0].address == address)
      return true;
  return false;
}

bool is_left_over(const struct node_list *list, const struct graph_node *node) {
  return node->span_count > 0 &&
         ((node->type == NODE_MEM_ALLOC && !has_node(list, NODE_MEM_FREE, node->spans[0].address)) ||
          (node->type == NODE_MEM_FREE && !has_node(list, NODE_MEM_ALLOC, node->spans[0].address)));
}

// ---- the table ----------------------------------------------------------------------------------

MUTEX(graphs_lock);
static ZERO_IN_CHILD struct handle_table table;

struct executable_graph *find_graph(uint64_t handle) {
  struct handle_row *row = find_handle(&table, handle);
  return row != NULL ? row->object : NULL;
}

// With the lock held.
static void write_all_changes(void) {
  struct change *all = NULL;
  struct handle_row *row;
  for (size_t position = 0; kept_changes > 0 && (row = next_handle(&table, &position)) != NULL;) {
    struct executable_graph *graph = row->object;
    move_changes(&graph->changes, &all);
    for (size_t n = 0; n < graph->nodes.count; n++)
      move_changes(&graph->nodes.items[n].changes, &all);
  }
  if (all != NULL)
    write_changes(all);
}

void write_graph_changes(void) {
  HOLD(graphs_lock);
  write_all_changes();
}

// The graph itself stays allocated, because a launch in another thread may look at it; what it holds goes.
static void forget_graph(uint64_t handle) {
  HOLD(graphs_lock);
  struct handle_row *row = find_handle(&table, handle);
  if (row == NULL)
    return;
  struct executable_graph *graph = row->object;
  end_handle(row);
  free_nodes(&graph->nodes);
  drop_changes(&graph->changes);
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

// Before the driver is called: the graph may be changed or destroyed as soon as the call has returned.
void describe_graph_call(struct call *call) {
  enum effect effect = call->function->effect;
  bool concerned = effect == EFFECT_GRAPH || graph_change_can_wait(call);
  call->description = concerned ? calloc(1, sizeof *call->description) : NULL;
  if (call->description == NULL || effect == EFFECT_GRAPH_ENABLE)
    return;
  if (effect == EFFECT_GRAPH_NODE)
    describe_change(call->description, call);
  else
    describe_graph(call->description, call->arguments[call->function->effect_terms[0].first]);
}

void graph_enter(struct call *call) {
  const struct parameter *options = parameter_of(call->function, 2);
  if (call->function->effect == EFFECT_GRAPH && options->role == ROLE_CUSTOM && call->arguments[2] != 0)
    attach(call, 2, 0, pointer_argument(call, 2), options->element_bytes);
  const struct description *description = call->description;
  if (description != NULL && description->bytes != NULL)
    attach_unsafe(call, (unsigned)call->function->effect_terms[0].first, 1, description->bytes,
                  description->length);
}

// `nodes` change hands.
static void add_graph(uint64_t handle, struct node_list *nodes) {
  forget_graph(handle); // its end was not seen
  struct executable_graph *graph = calloc(1, sizeof *graph);
  HOLD(graphs_lock);
  if (graph == NULL || !add_handle(&table, handle, graph)) {
    free(graph);
    return;
  }
  graph->nodes = *nodes;
  *nodes = (struct node_list){0};
  look_at_nodes(graph);
}

// Gives the node; NULL: it is not known.
static struct graph_node *change_node(struct node_list *list, const struct call *call,
                                      struct node_list *nodes) {
  size_t n = 0;
  while (n < list->count && list->items[n].handle != call->arguments[1])
    n++;
  if (n == list->count)
    return NULL;
  if (call->function->effect == EFFECT_GRAPH_ENABLE) {
    list->items[n].disabled = (uint32_t)call->arguments[2] == 0;
    return &list->items[n];
  }
  size_t end = n + 1;
  while (end < list->count && list->items[end].depth > list->items[n].depth)
    end++;
  size_t first = n + (call->function->node == NODE_GRAPH); // a new child graph for a node that stays
  exchange_nodes(list, first, end - first, nodes);
  return &list->items[n];
}

static void change_graph(struct call *call, struct node_list *nodes) {
  HOLD(graphs_lock);
  struct executable_graph *graph = find_graph(call->arguments[0]);
  struct graph_node *node = NULL;
  if (graph == NULL)
    return;
  if (call->function->effect == EFFECT_GRAPH_UPDATE)
    exchange_nodes(&graph->nodes, 0, graph->nodes.count, nodes);
  else
    node = change_node(&graph->nodes, call, nodes);
  look_at_nodes(graph);
  if (call->waits_for_window)
    keep_change(node != NULL ? &node->changes : &graph->changes, call);
  if (call->waits_for_window &&
      current_mode() != MODE_CLOSED) // a window has opened: nobody else comes to write it
    write_all_changes();
}

void follow_graph_call(struct call *call, int result) {
  if (result == SUCCESS && ended_by(call->function) == HANDLE_CUgraphExec)
    forget_graph(call->arguments[0]);
  if (call->description == NULL)
    return;
  if (result == SUCCESS && call->function->effect != EFFECT_GRAPH) {
    change_graph(call, &call->description->nodes);
  } else if (result == SUCCESS && call->arguments[0] != 0) {
    add_graph(handle_given_out(call), &call->description->nodes);
  }
  free_description(call->description);
  free(call->description);
  call->description = NULL;
}
