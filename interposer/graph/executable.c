// Which executable graphs there are, and the calls that make, change and end them.
//
// What a row of the table leads to is changed under the lock, which is never held across a call of the
// driver.
#include "graph/executable.h"

#include "base/fork.h"
#include "base/handles.h"
#include "driver/real.h"
#include "graph/graph.h"
#include "objects/kernels.h"
#include "record/encode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static MUTEX(lock);
static struct handle_table table;

struct executable_graph *find_graph(uint64_t handle) {
  struct handle_row *row = find_handle(&table, handle);
  return row != NULL ? row->object : NULL;
}

struct executable_graph *hold_graph(uint64_t handle) {
  pthread_mutex_lock(&lock);
  return find_graph(handle);
}

void release_graphs(void) { pthread_mutex_unlock(&lock); }

// The graph itself stays allocated, because a launch in another thread may be looking at it; what it holds
// goes.
static void forget_graph(uint64_t handle) {
  pthread_mutex_lock(&lock);
  struct handle_row *row = find_handle(&table, handle);
  if (row != NULL) {
    struct executable_graph *graph = row->object;
    end_handle(row);
    free_nodes(&graph->nodes);
  }
  pthread_mutex_unlock(&lock);
}

static void reset(void) { atomic_store(&table.rows, NULL); }
IN_CHILD(reset);

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
    parameters->type = NODE_BATCH_MEM_OP;
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
  if (makes_graph(id) || changes_whole_graph(id))
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
  unsigned parameter = makes_graph(id) || changes_whole_graph(id) ? 1 : 2;
  attach_copy(call, parameter, 1, description->bytes, description->length);
}

static void add_graph(uint64_t handle, struct node_list nodes) {
  forget_graph(handle); // its end was not seen
  pthread_mutex_lock(&lock);
  struct executable_graph *graph = calloc(1, sizeof *graph);
  if (graph != NULL) {
    graph->handle = handle;
    graph->nodes = nodes;
    look_at_nodes(graph);
  }
  bool added = graph != NULL && add_handle(&table, handle, graph);
  pthread_mutex_unlock(&lock);
  if (!added) {
    free(graph);
    free_nodes(&nodes);
  }
}

static void change_graph(const struct call *call, struct node_list *nodes) {
  unsigned id = call->function->id;
  struct executable_graph *graph = hold_graph(call->arguments[0]);
  struct node_list *list = graph != NULL ? &graph->nodes : NULL;
  if (graph != NULL && changes_whole_graph(id)) {
    exchange_nodes(list, 0, list->count, nodes);
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
      exchange_nodes(list, n + 1, end - n - 1, nodes);
    } else if (n < list->count) {
      exchange_nodes(list, n, 1, nodes);
    }
  }
  if (graph != NULL)
    look_at_nodes(graph);
  release_graphs();
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
