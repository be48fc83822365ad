// What a node of a graph does: as the driver says, or as a call that changes the node gives it.
#include "base/handles.h"
#include "driver/real.h"
#include "graph/description.h"
#include "objects/objects.h"

// ---- conditional nodes --------------------------------------------------------------------------

// What is told when they are made, because no driver says all of it of a finished graph.
//
// Handles and nodes of graphs that have ended stay in the tables until their numbers are given out again,
// which is when they are replaced: nothing asks for one that no living graph has.
enum { MAX_BODIES = 1 << 16 };

// What a conditional handle was made with, and for which graph.
struct condition {
  uint64_t graph, context;
  uint32_t default_value, flags;
};
struct conditional_node {
  struct CUDA_CONDITIONAL_NODE_PARAMS parameters;
  uint64_t bodies[]; // the graphs inside it
};

static MUTEX(lock);
static struct handle_table conditions, conditionals; // struct condition, struct conditional_node

// The driver may give out any number as a conditional handle, and 0 and 1 are no handles in a table.
static uint64_t key_of(uint64_t handle) { return handle + 2; }

static void remember_condition(struct handle_table *table, uint64_t handle, void *object) {
  HOLD(lock);
  struct handle_row *row = find_handle(table, key_of(handle));
  if (row == NULL && add_handle(table, key_of(handle), object))
    return;
  free(row != NULL ? row->object : object);
  if (row != NULL)
    row->object = object;
}

void follow_condition(const struct call *call) {
  const uint64_t *arguments = call->arguments;
  struct condition *condition = malloc(sizeof *condition);
  if (condition == NULL)
    return;
  *condition = (struct condition){arguments[1], arguments[2], (uint32_t)arguments[3], (uint32_t)arguments[4]};
  remember_condition(&conditions, handle_given_out(call), condition);
}

static size_t bytes_of(const struct CUDA_CONDITIONAL_NODE_PARAMS *parameters) {
  return sizeof(struct conditional_node) + parameters->size * sizeof(uint64_t);
}

void follow_added_node(const struct call *call) {
  follow_node_origin(call);
  const struct CUgraphNodeParams *given = pointer_argument(call, call->function->parameter_count - 1u);
  if (given == NULL || given->type != NODE_CONDITIONAL)
    return;
  const struct CUDA_CONDITIONAL_NODE_PARAMS made = given->conditional;
  if (made.size > MAX_BODIES || made.phGraph_out == 0)
    return;
  struct conditional_node *node = malloc(bytes_of(&made));
  if (node == NULL)
    return;
  node->parameters = made;
  memcpy(node->bodies, (const void *)(uintptr_t)made.phGraph_out, made.size * sizeof *node->bodies);
  remember_condition(&conditionals, handle_given_out(call), node);
}

static bool find_condition(uint64_t handle, struct condition *found) {
  HOLD(lock);
  const struct handle_row *row = find_handle(&conditions, key_of(handle));
  if (row != NULL)
    memcpy(found, row->object, sizeof *found);
  return row != NULL;
}

// For the caller to free. NULL: it was made before the shim saw it, or there is no memory.
static struct conditional_node *find_conditional(uint64_t node) {
  HOLD(lock);
  const struct handle_row *row = find_handle(&conditionals, key_of(node));
  struct conditional_node *found = row != NULL ? malloc(bytes_of(row->object)) : NULL;
  if (found != NULL)
    memcpy(found, row->object, bytes_of(row->object));
  return found;
}

// ---- nodes --------------------------------------------------------------------------------------

enum { MAX_OPERATIONS = 4096 };

// By CUgraphNodeType: the question for the member of CUgraphNodeParams that belongs to it, the member's
// bytes, where in it the answer goes, and where the context that a change names.
static const struct {
  const char *question;
  size_t bytes, answer, context;
} kinds[] = {
#define NODE_KIND(type, question, bytes, answer, context) [type] = {question, bytes, answer, context},
#include "generated/nodes.inc"
};
enum { KINDS = sizeof kinds / sizeof *kinds };

// ---- asking -------------------------------------------------------------------------------------

// Names the context of copies and fills as well, which the older functions do not. GT-NODE-PARAMS.
static bool ask_everything(uint64_t node, struct CUgraphNodeParams *answer) {
  enum { SINCE = 13020 };
  return driver_version() >= SINCE && ASK("cuGraphNodeGetParams", node, word(answer)) == SUCCESS;
}

bool ask_parameters(uint64_t node, struct CUgraphNodeParams *answer) {
  static _Atomic(void *) known[KINDS];
  uint32_t type = answer->type;
  if (type >= KINDS || kinds[type].question == NULL ||
      ((type == NODE_MEMCPY || type == NODE_MEMSET) && ask_everything(node, answer)))
    return true;
  const uint64_t arguments[6] = {node, word(answer->asBytes + kinds[type].answer)};
  if (ask_driver(&known[type], kinds[type].question, arguments) == SUCCESS)
    return true;
  // The first version of this struct is the beginning of the second.
  return type == NODE_KERNEL && ASK("cuGraphKernelNodeGetParams", node, word(answer->asBytes)) == SUCCESS;
}

// ---- describing ---------------------------------------------------------------------------------

// What the shim keeps of a node is not whole without it.
static void keep_span(struct node_writer *writer, uint64_t address, uint64_t bytes) {
  if (bytes != 0 && !add_span(&writer->node, (struct span){address, bytes}))
    writer->description->failed = true;
}

static void keep_words(struct node_writer *writer, const uint8_t *packed, size_t bytes) {
  if (packed == NULL || bytes == 0)
    return;
  writer->node.words = malloc(bytes);
  if (writer->node.words == NULL) {
    writer->description->failed = true;
    return;
  }
  memcpy(writer->node.words, packed, bytes);
  writer->node.word_bytes = (uint32_t)bytes;
}

static bool put_extra(struct node_writer *writer, const uint64_t *words) {
  uint64_t bytes;
  const void *buffer = extra_buffer(words, &bytes);
  if (buffer != NULL)
    keep_words(writer, put_part(writer, PART_BUFFER, buffer, bytes), bytes);
  return buffer != NULL;
}

static bool put_values(struct node_writer *writer, const struct kernel *kernel, const uint64_t *values) {
  if (kernel->parameter_count < 0)
    return false;
  size_t bytes = kernel->parameter_bytes;
  uint8_t *packed = put_part(writer, PART_BUFFER, NULL, bytes);
  bool whole = packed == NULL || pack_values(kernel, values, packed);
  keep_words(writer, packed, bytes);
  put_part(writer, PART_LAYOUT, kernel->layout, (size_t)kernel->parameter_count * 8);
  return whole;
}

static void put_kernel(struct node_writer *writer, const struct CUDA_KERNEL_NODE_PARAMS *given) {
  struct CUDA_KERNEL_NODE_PARAMS member = *given;
  struct kernel *kernel = kernel_of_handle(member.func != 0 ? member.func : member.kern);
  if (kernel->owner == 0) {
    // A kernel of a library, which the driver answers with the function that it made of it.
    uint64_t known = library_kernel_of(kernel);
    if (known != 0) {
      member.func = 0;
      member.kern = known;
      kernel = kernel_of_handle(known);
    }
  }
  writer->node.kernel = kernel;
  memcpy(writer->node.geometry, &member.gridDimX, sizeof writer->node.geometry);
  put_part(writer, PART_PARAMETERS, &member, sizeof member);
  put_part(writer, PART_NAME, kernel->name, strlen(kernel->name));
  ask_layout(kernel);
  bool known = true;
  if (member.kernelParams != 0)
    known = put_values(writer, kernel, (const uint64_t *)(uintptr_t)member.kernelParams);
  else if (member.extra != 0)
    known = put_extra(writer, (const uint64_t *)(uintptr_t)member.extra);
  else
    known = kernel->parameter_count == 0;
  if (!known)
    put_problem(writer, "the layout of the kernel's parameters is not known");
  int32_t pairs[2 * KERNEL_ATTRIBUTES];
  size_t count = ask_attributes(kernel, pairs);
  if (count > 0)
    put_part(writer, PART_KERNEL, pairs, count * 2 * sizeof *pairs);
}

static void put_inside(struct node_writer *writer, enum node_part part, uint64_t graph) {
  size_t start = begin_part(writer, part);
  writer->description->depth++;
  put_graph(writer->description, graph);
  writer->description->depth--;
  end_part(writer, start);
}

// Of the graph that is being described and those that hold it, the one of this handle: steps outward; or
// false.
static bool steps_outward(const struct description *description, uint64_t graph, uint32_t *steps) {
  for (*steps = 0; *steps <= description->depth; ++*steps)
    if (description->graphs[description->depth - *steps] == graph)
      return true;
  return false;
}

static void put_conditional(struct node_writer *writer) {
  struct conditional_node *node = find_conditional(writer->node.handle);
  struct condition condition;
  uint32_t outward;
  if (node == NULL) {
    put_problem(writer,
                "it was made before the capture began, and no driver says what its value starts from");
    return;
  }
  put_part(writer, PART_PARAMETERS, &node->parameters, sizeof node->parameters);
  if (find_condition(node->parameters.handle, &condition) &&
      steps_outward(writer->description, condition.graph, &outward)) {
    put_part(writer, PART_CONDITION, (uint32_t[4]){condition.default_value, condition.flags, outward, 0}, 16);
    for (uint32_t n = 0; n < node->parameters.size; n++)
      put_inside(writer, PART_BODY, node->bodies[n]);
  } else {
    put_problem(writer, "its handle was made before the capture began");
  }
  free(node);
}

static void put_operations(struct node_writer *writer, const struct CUDA_BATCH_MEM_OP_NODE_PARAMS *batch) {
  const union CUstreamBatchMemOpParams *operations = (const void *)(uintptr_t)batch->paramArray;
  if (operations == NULL || batch->count > MAX_OPERATIONS) {
    put_problem(writer, "its operations could not be read");
    return;
  }
  put_part(writer, PART_OPERATIONS, operations, batch->count * sizeof *operations);
  for (uint32_t n = 0; n < batch->count; n++) {
    struct span span = operation_span(&operations[n]);
    if (span.address != 0)
      keep_span(writer, span.address, span.bytes);
  }
}

void put_parameters(struct node_writer *writer, const struct CUgraphNodeParams *parameters) {
  uint32_t type = parameters->type;
  const void *member = parameters->asBytes;
  uint64_t first; // of some members all there is: a handle or an address
  memcpy(&first, member, sizeof first);
  if (type < KINDS && kinds[type].bytes > 0 && type != NODE_KERNEL)
    put_part(writer, PART_PARAMETERS, member, kinds[type].bytes);
  switch (type) {
  case NODE_KERNEL:
    put_kernel(writer, member);
    break;
  case NODE_GRAPH:
    put_inside(writer, PART_CHILD, first);
    break;
  case NODE_MEMCPY: {
    struct copy_3d_span spans = spans_of_3d(&((const struct CUDA_MEMCPY_NODE_PARAMS *)member)->copyParams);
    keep_span(writer, spans.source.address, spans.source.bytes);
    keep_span(writer, spans.destination.address, spans.destination.bytes);
    writer->node.host_source = spans.host_source && spans.source.bytes > 0;
    break;
  }
  case NODE_MEMSET: {
    const struct CUDA_MEMSET_NODE_PARAMS_v2 *fill = member;
    uint64_t row = fill->width * fill->elementSize;
    keep_span(writer, fill->dst, fill->height > 1 ? fill->pitch * (fill->height - 1) + row : row);
    break;
  }
  case NODE_MEM_ALLOC: {
    const struct CUDA_MEM_ALLOC_NODE_PARAMS *memory = member;
    if (memory->accessDescs != 0 && memory->accessDescCount <= 64)
      put_part(writer, PART_ACCESS, (const void *)(uintptr_t)memory->accessDescs,
               memory->accessDescCount * sizeof(struct CUmemAccessDesc));
    keep_span(writer, memory->dptr, memory->bytesize);
    break;
  }
  case NODE_MEM_FREE:
    keep_span(writer, first, 1);
    break;
  case NODE_BATCH_MEM_OP:
    put_operations(writer, member);
    break;
  case NODE_CONDITIONAL:
    put_conditional(writer);
    break;
  default: // the reader knows of which of the others there is more than the type to be said
    break;
  }
}

// A change names the context of a copy or a fill in an argument of its own.
void describe_change(struct description *description, const struct call *call) {
  const struct function *function = call->function;
  unsigned position = (unsigned)function->effect_terms[0].first;
  const struct parameter *parameter = parameter_of(function, position);
  struct CUgraphNodeParams changed = {.type = function->node};
  bool is_handle = parameter->role == ROLE_HANDLE;
  const void *given = pointer_argument(call, position);
  if (changed.type == NODE_GRAPH) {
    describe_graph(description, call->arguments[position]);
    return;
  }
  if (is_handle)
    memcpy(changed.asBytes, &call->arguments[position], 8);
  else if (given == NULL)
    return;
  else if (changed.type >= KINDS) // of any type: the struct says which
    memcpy(&changed, given, sizeof changed);
  else
    memcpy(changed.asBytes + kinds[changed.type].answer, given, parameter->element_bytes);
  if (position + 1 < function->parameter_count)
    memcpy(changed.asBytes + kinds[changed.type].context, &call->arguments[position + 1], 8);
  begin_description(description);
  begin_graph(description, 1);
  struct node_writer writer = begin_node(description, call->arguments[1], changed.type);
  put_parameters(&writer, &changed);
  end_node(&writer);
  end_description(description);
}
