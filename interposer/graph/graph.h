// Executable graphs, as the rest of the shim asks for them.
#pragma once

#include "record/call.h"

struct range_list;

// False: a launch of this executable graph is of no interest while the window is closed.
bool graph_matters(struct thread *thread, uint64_t handle);
void describe_graph_call(struct call *call);           // before a call that makes or changes one
void follow_graph_call(struct call *call, int result); // after it, or after one that ends one
void visit_matching_kernels(uint64_t handle,
                            void (*visit)(struct kernel *kernel, const uint32_t geometry[7], void *state),
                            void *state);
uint32_t kernels_in_graph(uint64_t handle);  // those that a launch launches
void graph_wants_variables(uint64_t handle); // of the modules of its kernels
bool graph_reaches_untouched(uint64_t handle);
void graph_reach(uint64_t handle, struct range_list *reached);
void graph_ending_memory(uint64_t handle, struct range_list *ending);
void follow_graph_launch(uint64_t handle);
// Changes while no window is open are written when one opens.
bool graph_change_can_wait(const struct call *call);
void write_graph_changes(void);

// Of rows of the table. What attaches a description or host memory:
void graph_enter(struct call *call);
void graph_launch_enter(struct call *call);
// After a conditional handle or a node was made (graph/parameters.c):
void follow_condition(const struct call *call);
void follow_added_node(const struct call *call);
// graph/origins.c: a node of a graph has the origin of the call that added or captured it.
static inline bool adds_node(const struct function *function) {
  const struct parameter *first = parameter_of(function, 0);
  return function->parameter_count > 0 && first->role == ROLE_OUT && first->handle == HANDLE_CUgraphNode;
}
void follow_node_origin(const struct call *call);
void follow_captured_launch(const struct call *call); // whose origin is known, after a success
