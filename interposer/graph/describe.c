// Asks the driver for everything that is in a graph, and writes it into a description.
//
// A graph may come from stream capture, from a library or from a clone, so what built it was not seen. The
// questions are answered from the driver's tables: none of them waits for the device or takes part in a
// capture.
#include "graph/description.h"

#include "arguments/arguments.h"
#include "base/bytes.h"
#include "driver/real.h"
#include "objects/kernels.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_NODES = 1 << 20,
  MAX_OPERATIONS = 4096,
  ATTRIBUTE_BYTES = 72,
};

struct kernel_member { // CUDA_KERNEL_NODE_PARAMS_v2
  uint64_t function;
  uint32_t geometry[7], padding;
  uint64_t values, extra, kernel, context;
};
_Static_assert(sizeof(struct kernel_member) == 72, "CUDA_KERNEL_NODE_PARAMS");

struct batch_member { // CUDA_BATCH_MEM_OP_NODE_PARAMS
  uint64_t context;
  uint32_t count, padding;
  uint64_t operations;
  uint32_t flags, padding_too;
};
_Static_assert(sizeof(struct batch_member) == 32, "CUDA_BATCH_MEM_OP_NODE_PARAMS");

struct allocate_member { // CUDA_MEM_ALLOC_NODE_PARAMS
  uint8_t pool[88];
  uint64_t access, access_count, bytes, address;
};
_Static_assert(sizeof(struct allocate_member) == 120, "CUDA_MEM_ALLOC_NODE_PARAMS");

// ---- nodes --------------------------------------------------------------------------------------

// Bytes of the member of CUgraphNodeParams that belongs to a type, 0 when there is nothing to say.
static size_t member_bytes(uint32_t type) {
  switch (type) {
  case NODE_KERNEL:
    return sizeof(struct kernel_member);
  case NODE_MEMCPY:
    return 216;
  case NODE_MEMSET:
    return 48;
  case NODE_HOST:
    return 16;
  case NODE_WAIT_EVENT:
  case NODE_EVENT_RECORD:
  case NODE_MEM_FREE:
    return 8;
  case NODE_MEM_ALLOC:
    return sizeof(struct allocate_member);
  case NODE_BATCH_MEM_OP:
    return sizeof(struct batch_member);
  default:
    return 0;
  }
}

static bool put_extra(struct node_writer *node, const uint64_t *words) {
  uint64_t bytes;
  const void *buffer = extra_buffer(words, &bytes);
  if (buffer == NULL)
    return false;
  put_part(node, PART_BUFFER, buffer, bytes);
  return true;
}

static bool put_values(struct node_writer *node, const struct kernel *kernel, const uint64_t *values) {
  for (int32_t n = 0; n < kernel->parameter_count; n++)
    if (values[n] == 0)
      return false;
  if (kernel->parameter_count < 0)
    return false;
  uint8_t *packed = put_empty_part(node, PART_BUFFER, kernel->parameter_bytes);
  for (int32_t n = 0; packed != NULL && n < kernel->parameter_count; n++)
    memcpy(packed + kernel->layout[n * 2], (const void *)(uintptr_t)values[n], kernel->layout[n * 2 + 1]);
  put_part(node, PART_LAYOUT, kernel->layout, (size_t)kernel->parameter_count * 8);
  return true;
}

static void put_kernel(struct node_writer *node, const struct kernel_member *given) {
  struct kernel_member member = *given;
  struct kernel *kernel = kernel_of_handle(member.function != 0 ? member.function : member.kernel);
  if (kernel->owner == 0) {
    // A kernel of a library, which the driver answers with the function that it made of it.
    uint64_t known = library_kernel_of(kernel);
    if (known != 0) {
      member.function = 0;
      member.kernel = known;
      kernel = kernel_of_handle(known);
    }
  }
  put_part(node, PART_PARAMETERS, &member, sizeof member);
  put_part(node, PART_NAME, kernel->name, strlen(kernel->name));
  ask_layout(kernel);
  bool known = true;
  if (member.values != 0)
    known = put_values(node, kernel, (const uint64_t *)(uintptr_t)member.values);
  else if (member.extra != 0)
    known = put_extra(node, (const uint64_t *)(uintptr_t)member.extra);
  else
    known = kernel->parameter_count == 0;
  if (!known)
    put_problem(node, "the layout of the kernel's parameters is not known");
  int32_t pairs[2 * KERNEL_ATTRIBUTES];
  size_t count = ask_attributes(kernel, pairs);
  if (count > 0)
    put_part(node, PART_KERNEL, pairs, count * 2 * sizeof *pairs);
}

static void describe_graph_into(struct description *description, uint64_t graph, unsigned depth);

static void put_inside(struct node_writer *node, enum node_part part, uint64_t graph, unsigned depth) {
  size_t start = begin_part(node, part);
  describe_graph_into(node->description, graph, depth + 1);
  end_part(node, start);
}

// Of a graph, or of the graphs that hold it, the one with this handle: how many steps outward. False: none.
static bool steps_outward(const struct description *description, uint64_t graph, unsigned depth,
                          uint32_t *steps) {
  for (*steps = 0; *steps <= depth; ++*steps)
    if (description->graphs[depth - *steps] == graph)
      return true;
  return false;
}

static void put_conditional(struct node_writer *node, uint64_t handle, unsigned depth) {
  struct conditional conditional;
  struct condition condition;
  uint64_t *bodies;
  uint32_t outward;
  if (!find_conditional(handle, &conditional, &bodies)) {
    put_problem(node, "it was made before the capture began, and no driver says what its value starts from");
    return;
  }
  put_part(node, PART_PARAMETERS, &conditional, sizeof conditional);
  if (find_condition(conditional.handle, &condition) &&
      steps_outward(node->description, condition.graph, depth, &outward)) {
    put_part(node, PART_CONDITION, (uint32_t[4]){condition.default_value, condition.flags, outward, 0}, 16);
    for (uint32_t n = 0; n < conditional.count; n++)
      put_inside(node, PART_BODY, bodies[n], depth);
  } else {
    put_problem(node, "its handle was made before the capture began");
  }
  free(bodies);
}

static void put_parameters(struct node_writer *node, uint64_t handle, uint32_t type, const uint8_t *member,
                           unsigned depth) {
  switch (type) {
  case NODE_KERNEL:
    put_kernel(node, (const struct kernel_member *)(const void *)member);
    return;
  case NODE_GRAPH: {
    uint64_t graph;
    memcpy(&graph, member, 8);
    put_inside(node, PART_CHILD, graph, depth);
    return;
  }
  case NODE_EMPTY:
  case NODE_SEMAPHORE_SIGNAL: // in a replay nobody waits for it
    return;
  case NODE_HOST:
    put_part(node, PART_PARAMETERS, member, member_bytes(type));
    put_problem(node, "a host function is the application's own code");
    return;
  case NODE_SEMAPHORE_WAIT:
    put_problem(node, "it waits for another process or interface, which writes memory that is not captured");
    return;
  case NODE_CONDITIONAL:
    put_conditional(node, handle, depth);
    return;
  case NODE_BATCH_MEM_OP: {
    const struct batch_member *batch = (const struct batch_member *)(const void *)member;
    put_part(node, PART_PARAMETERS, batch, sizeof *batch);
    if (batch->operations != 0 && batch->count <= MAX_OPERATIONS)
      put_part(node, PART_OPERATIONS, (const void *)(uintptr_t)batch->operations, (size_t)batch->count * 48);
    else
      put_problem(node, "its operations could not be read");
    return;
  }
  case NODE_MEM_ALLOC: {
    const struct allocate_member *memory = (const struct allocate_member *)(const void *)member;
    put_part(node, PART_PARAMETERS, memory, sizeof *memory);
    if (memory->access != 0 && memory->access_count <= 64)
      put_part(node, PART_ACCESS, (const void *)(uintptr_t)memory->access, memory->access_count * 12);
    return;
  }
  default:
    if (member_bytes(type) > 0)
      put_part(node, PART_PARAMETERS, member, member_bytes(type));
    else
      put_problem(node, "its type came with a later driver");
  }
}

// ---- what the driver knows ----------------------------------------------------------------------

static bool ask(const char *symbol, uint64_t node, void *answer) {
  int (*get)(uint64_t, void *) = driver_symbol(symbol);
  return get != NULL && get(node, answer) == SUCCESS;
}

// Names the context of copies and fills as well, which the older functions do not. Not yet seen on a GPU.
static bool ask_everything(uint64_t node, struct node_parameters *answer) {
  enum { SINCE = 13020 };
  int (*version_of)(int *) = driver_symbol("cuDriverGetVersion");
  int version = 0;
  return version_of != NULL && version_of(&version) == SUCCESS && version >= SINCE &&
         ask("cuGraphNodeGetParams", node, answer);
}

static bool ask_node(uint64_t node, uint32_t type, struct node_parameters *answer) {
  uint8_t *member = answer->member;
  switch (type) {
  case NODE_KERNEL: // the first version of the struct is the beginning of the second
    return ask("cuGraphKernelNodeGetParams_v2", node, member) ||
           ask("cuGraphKernelNodeGetParams", node, member);
  case NODE_MEMCPY:
    return ask_everything(node, answer) || ask("cuGraphMemcpyNodeGetParams", node, member + 16);
  case NODE_MEMSET:
    return ask_everything(node, answer) || ask("cuGraphMemsetNodeGetParams", node, member);
  case NODE_HOST:
    return ask("cuGraphHostNodeGetParams", node, member);
  case NODE_GRAPH:
    return ask("cuGraphChildGraphNodeGetGraph", node, member);
  case NODE_WAIT_EVENT:
    return ask("cuGraphEventWaitNodeGetEvent", node, member);
  case NODE_EVENT_RECORD:
    return ask("cuGraphEventRecordNodeGetEvent", node, member);
  case NODE_MEM_ALLOC:
    return ask("cuGraphMemAllocNodeGetParams", node, member);
  case NODE_MEM_FREE:
    return ask("cuGraphMemFreeNodeGetParams", node, member);
  case NODE_BATCH_MEM_OP:
    return ask("cuGraphBatchMemOpNodeGetParams", node, member);
  default:
    return true;
  }
}

// Those that are valid for graph nodes and that somebody has set.
static void put_attributes(struct node_writer *node, uint64_t handle) {
  static const uint32_t ids[] = {1, 2, 4, 5, 8, 9, 10, 11, 13, 14, 16}; // CUlaunchAttributeID
  enum { CLUSTER_DIMENSION = 4, PREFERRED_CLUSTER_DIMENSION = 11, DEVICE_UPDATABLE = 13 };
  int (*get)(uint64_t, uint32_t, void *) = driver_symbol("cuGraphKernelNodeGetAttribute");
  uint8_t found[sizeof ids / sizeof *ids * ATTRIBUTE_BYTES];
  size_t bytes = 0;
  for (size_t n = 0; get != NULL && n < sizeof ids / sizeof *ids; n++) {
    uint8_t value[64] = {0};
    static const uint32_t one[3] = {1, 1, 1};
    if (get(handle, ids[n], value) != SUCCESS || is_zero(value, sizeof value))
      continue;
    if ((ids[n] == CLUSTER_DIMENSION || ids[n] == PREFERRED_CLUSTER_DIMENSION) &&
        memcmp(value, one, sizeof one) == 0)
      continue;
    if (ids[n] == DEVICE_UPDATABLE && is_zero(value, 4))
      continue;
    memset(found + bytes, 0, ATTRIBUTE_BYTES);
    memcpy(found + bytes, &ids[n], 4);
    memcpy(found + bytes + 8, value, sizeof value);
    bytes += ATTRIBUTE_BYTES;
  }
  if (bytes > 0)
    put_part(node, PART_ATTRIBUTES, found, bytes);
}

struct place {
  uint64_t handle;
  uint32_t index;
};

static int compare_places(const void *a, const void *b) {
  uint64_t first = ((const struct place *)a)->handle, second = ((const struct place *)b)->handle;
  return first < second ? -1 : first > second;
}

// In the order of the edges, which cuGraphExecUpdate goes by. False: the driver would not say.
static bool put_dependencies(struct node_writer *node, uint64_t handle, const struct place *places,
                             size_t count) {
  int (*get)(uint64_t, uint64_t *, void *, size_t *) = driver_symbol("cuGraphNodeGetDependencies_v2");
  int (*get_plain)(uint64_t, uint64_t *, size_t *) = driver_symbol("cuGraphNodeGetDependencies");
  size_t edges = 0;
  if (get != NULL ? get(handle, NULL, NULL, &edges) != SUCCESS
                  : get_plain == NULL || get_plain(handle, NULL, &edges) != SUCCESS)
    return false;
  if (edges == 0)
    return true;
  if (edges > MAX_NODES)
    return false;
  uint64_t *found = calloc(edges, 16);
  if (found == NULL)
    return false;
  uint8_t *data = (uint8_t *)(found + edges);
  bool whole = (get != NULL ? get(handle, found, data, &edges) : get_plain(handle, found, &edges)) == SUCCESS;
  for (size_t n = 0; whole && n < edges; n++) {
    struct place wanted = {found[n], 0};
    const struct place *place = bsearch(&wanted, places, count, sizeof *places, compare_places);
    whole = place != NULL;
    if (whole)
      put_dependency(node, place->index, data + 8 * n);
  }
  free(found);
  return whole;
}

static bool describe_graph_node(struct description *description, const uint64_t *nodes, size_t n,
                                const struct place *places, size_t count, unsigned depth) {
  uint32_t type = 0;
  if (!ask("cuGraphNodeGetType", nodes[n], &type))
    return false;
  struct node_writer node = begin_node(description, nodes[n], type);
  if (!put_dependencies(&node, nodes[n], places, count))
    return false;
  struct node_parameters parameters = {.type = type};
  if (ask_node(nodes[n], type, &parameters))
    put_parameters(&node, nodes[n], type, parameters.member, depth);
  else
    put_problem(&node, "the driver does not say what it does");
  if (type == NODE_KERNEL)
    put_attributes(&node, nodes[n]);
  end_node(&node);
  return true;
}

static void describe_graph_into(struct description *description, uint64_t graph, unsigned depth) {
  int (*get)(uint64_t, uint64_t *, size_t *) = driver_symbol("cuGraphGetNodes");
  size_t count = 0;
  if (get == NULL || graph == 0 || depth > MAX_GRAPH_DEPTH || get(graph, NULL, &count) != SUCCESS ||
      count > MAX_NODES) {
    description->failed = true;
    return;
  }
  description->graphs[depth] = graph;
  uint64_t *nodes = calloc(count + 1, sizeof *nodes);
  struct place *places = calloc(count + 1, sizeof *places);
  if (nodes == NULL || places == NULL || (count > 0 && get(graph, nodes, &count) != SUCCESS))
    description->failed = true;
  begin_graph(description, (uint32_t)count);
  if (!description->failed) {
    for (size_t n = 0; n < count; n++)
      places[n] = (struct place){nodes[n], (uint32_t)n};
    qsort(places, count, sizeof *places, compare_places);
  }
  for (size_t n = 0; n < count && !description->failed; n++)
    if (!describe_graph_node(description, nodes, n, places, count, depth))
      description->failed = true;
  free(nodes);
  free(places);
}

void describe_graph(struct description *description, uint64_t graph) {
  begin_description(description);
  describe_graph_into(description, graph, 0);
  end_description(description);
}

void describe_node(struct description *description, uint64_t node, const struct node_parameters *parameters) {
  begin_description(description);
  begin_graph(description, 1);
  struct node_writer writer = begin_node(description, node, parameters->type);
  put_parameters(&writer, node, parameters->type, parameters->member, 0);
  end_node(&writer);
  end_description(description);
}
