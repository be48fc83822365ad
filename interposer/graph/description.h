// What the driver says of a graph and its nodes (describe.c), as bytes (description.c), and what it said of
// conditional nodes when they were made (conditions.c).
#pragma once

#include "record/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARTS = PART_BODY + 1 }; // room for one of each (enum node_part)

// CUgraphNodeParams; describe.c has the members that are read.
struct node_parameters {
  uint32_t type, reserved[3];
  uint8_t member[232];
  int64_t reserved_too;
};
_Static_assert(sizeof(struct node_parameters) == 256, "CUgraphNodeParams");

enum { MAX_GRAPH_DEPTH = 16 };

// A description that grows. `bytes` is NULL when there is no memory for it, or when it became too large.
struct description {
  uint8_t *bytes;
  size_t length, capacity;
  bool failed;
  uint64_t graphs[MAX_GRAPH_DEPTH + 1]; // the one that is being described, after those that hold it
};
void describe_graph(struct description *description, uint64_t graph);
// One node with these parameters, as if it were a whole graph.
void describe_node(struct description *description, uint64_t node, const struct node_parameters *parameters);
void free_description(struct description *description);

// Writing one: the nodes of a graph one after another, of each its dependencies and then its parts. Whatever
// fails makes the whole description fail, which end_description then frees.
struct node_writer {
  struct description *description;
  size_t head;
  uint32_t dependencies, parts;
};
void begin_description(struct description *description);
void end_description(struct description *description);
void begin_graph(struct description *description, uint32_t nodes);
struct node_writer begin_node(struct description *description, uint64_t handle, uint32_t type);
void put_dependency(struct node_writer *node, uint32_t index, const uint8_t data[8]); // CUgraphEdgeData
void put_part(struct node_writer *node, enum node_part part, const void *data, size_t bytes);
void put_problem(struct node_writer *node, const char *text);
uint8_t *put_empty_part(struct node_writer *node, enum node_part part, size_t bytes); // NULL: failed
size_t begin_part(struct node_writer *node, enum node_part part); // what is written until its end is inside
void end_part(struct node_writer *node, size_t start);
void end_node(struct node_writer *node);

// A description, read again.
struct described_node {
  uint64_t handle;
  uint32_t type, depth; // depth: in how many child graph nodes it is
  const uint8_t *part[PARTS];
  uint32_t part_bytes[PARTS];
};
// Calls `visit` for every node, those inside a node after it. False: no memory.
bool visit_nodes(const struct description *description, bool (*visit)(const struct described_node *, void *),
                 void *state);

// What a conditional handle was made with, and for which graph.
struct condition {
  uint64_t graph, context;
  uint32_t default_value, flags;
};
struct conditional { // CUDA_CONDITIONAL_NODE_PARAMS
  uint64_t handle;
  uint32_t type, count;
  uint64_t bodies, context;
};
_Static_assert(sizeof(struct conditional) == 32, "CUDA_CONDITIONAL_NODE_PARAMS");
void follow_conditions(const struct call *call, int result); // after a call that may have made one
bool find_condition(uint64_t handle, struct condition *found);
// The graphs inside a conditional node, for the caller to free. False: it was made before the shim saw it.
bool find_conditional(uint64_t node, struct conditional *found, uint64_t **bodies);
