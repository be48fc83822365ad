// Graphs inside this folder: their nodes, what the driver says of them, and which graphs are executable.
#pragma once

#include "arguments/arguments.h"
#include "generated/structs.h"
#include "graph/graph.h"

// ---- nodes, as far as the shim itself goes by them ----------------------------------------------

struct graph_node {
  uint64_t handle;
  uint32_t type, depth; // depth: nodes that it is inside of
  bool disabled;
  bool host_source; // the first of its spans may be host memory that a launch reads
  struct kernel *kernel;
  uint32_t geometry[7];
  uint32_t word_bytes, span_count;
  uint8_t *words;         // packed kernel parameters
  struct span *spans;     // what a copy, a fill, memory operations, an allocation or a free names
  struct change *changes; // of it, that wait for a window
};

struct node_list {
  struct graph_node *items;
  size_t count, capacity;
};

bool add_node(struct node_list *list, const struct graph_node *node); // false: no memory
bool add_span(struct graph_node *node, struct span span);             // likewise
void free_node(struct graph_node *node);
void free_nodes(struct node_list *list);
// Memory that a launch leaves allocated, or that it frees though an earlier launch allocated it.
bool is_left_over(const struct node_list *list, const struct graph_node *node);

// ---- a description ------------------------------------------------------------------------------

enum { MAX_GRAPH_DEPTH = 16 };

// A description that grows. When there is no memory for it, or it becomes too large, or the driver does not
// answer, it has `failed` and in the end neither bytes nor nodes.
struct description {
  uint8_t *bytes;
  size_t length, capacity;
  struct node_list nodes; // those inside a node after it
  bool failed;
  unsigned depth;
  uint64_t graphs[MAX_GRAPH_DEPTH + 1]; // the one that is being described, after those that hold it
};
void free_description(struct description *description);

// Writing one: the nodes of a graph one after another, of each its dependencies and then its parts.
struct node_writer {
  struct description *description;
  size_t head, place; // in the bytes, and in the list of nodes
  struct graph_node node;
};
void begin_description(struct description *description);
void end_description(struct description *description);
void begin_graph(struct description *description, uint32_t nodes);
struct node_writer begin_node(struct description *description, uint64_t handle, uint32_t type);
// Gives the bytes' place in the description, NULL when it has failed. data NULL: zeros.
uint8_t *put_part(struct node_writer *node, enum node_part part, const void *data, size_t bytes);
void put_problem(struct node_writer *node, const char *text);
size_t begin_part(struct node_writer *node, enum node_part part); // what is written until its end is inside
void end_part(struct node_writer *node, size_t start);
void end_node(struct node_writer *node);

// ---- what the driver says, as a description -----------------------------------------------------

void describe_graph(struct description *description, uint64_t graph);
// EFFECT_GRAPH_NODE: one node with its new parameters as if it were a whole graph, or a new child graph.
void describe_change(struct description *description, const struct call *call);

// The two files need each other: graphs are nested.
void put_graph(struct description *description, uint64_t graph);
bool ask_parameters(uint64_t node, struct CUgraphNodeParams *answer); // `type` is known
void put_parameters(struct node_writer *writer, const struct CUgraphNodeParams *parameters);

uint32_t origin_of_node(uint64_t handle); // 0: not known

// ---- executable graphs --------------------------------------------------------------------------

struct executable_graph {
  struct node_list nodes; // those inside a node after it
  struct change *changes; // of all of it, or of no node that is known; they wait for a window
  atomic_bool matters;    // to a launch while the window is closed
  uint32_t kernels;
  uint64_t checked; // the state of the memory's ranges in which all that it reaches had been touched; 0: none
};

// What graphs hold changes under it. It is never held across a call of the driver.
extern pthread_mutex_t graphs_lock;
// NULL: none is known by that handle. With no lock held, of what it finds only `matters` may be read.
struct executable_graph *find_graph(uint64_t handle);

// graph/changes.c
extern size_t kept_changes;
void keep_change(struct change **list, struct call *call); // after a success that was not recorded
void drop_changes(struct change **list);
void move_changes(struct change **from, struct change **to);
void write_changes(struct change *list); // in the order in which they came; they end
