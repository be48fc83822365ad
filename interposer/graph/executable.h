// Executable graphs inside this folder: their nodes (nodes.c), how they are made and changed (executable.c),
// and what a launch of one means (launch.c).
#pragma once

#include "arguments/arguments.h"
#include "graph/description.h"

#include <stdatomic.h>

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

// The nodes that a description tells of, those inside a node after it. `failed`: not all of them.
struct node_list nodes_of(const struct description *description);
void free_nodes(struct node_list *list);
// The content of `from` for the nodes from `first` on, which stay what they are: handle, depth, switched on
// or off. With another number of nodes than expected nothing is changed; the driver had paired them.
void exchange_nodes(struct node_list *list, size_t first, size_t count, struct node_list *from);
// Memory that a launch leaves allocated, or that it frees though an earlier launch allocated it.
bool is_left_over(const struct node_list *list, const struct graph_node *node);

// NULL: none is known by that handle. Takes no lock: of what it finds only `matters` may be read.
struct executable_graph *find_graph(uint64_t handle);
// The same, and no other thread changes graphs until release_graphs, which has to follow.
struct executable_graph *hold_graph(uint64_t handle);
void release_graphs(void);
bool changes_whole_graph(unsigned id); // changes.c; any other change is one of a node
