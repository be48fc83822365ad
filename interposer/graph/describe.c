// Asks the driver for everything that is in a graph, and writes it into a description.
//
// A graph may come from stream capture, from a library or from a clone, so what built it was not seen. The
// questions are answered from the driver's tables: none waits for the device or is captured.
#include "driver/real.h"
#include "graph/description.h"

// ---- the bytes of a description; the layout is replay/raw/FORMAT.md -----------------------------

enum { DESCRIPTION_VERSION = 1, MAX_BYTES = 256 << 20 };

void free_description(struct description *description) {
  free(description->bytes);
  free_nodes(&description->nodes);
  *description = (struct description){0};
}

// Padded to 8; data NULL: zeros. NULL: failed.
static uint8_t *put(struct description *description, const void *data, size_t bytes) {
  size_t padded = (bytes + 7) & ~(size_t)7;
  if (description->failed || padded > MAX_BYTES - description->length) {
    description->failed = true;
    return NULL;
  }
  if (description->length + padded > description->capacity) {
    size_t capacity = description->capacity * 2 + padded + 1024;
    uint8_t *grown = realloc(description->bytes, capacity);
    if (grown == NULL) {
      description->failed = true;
      return NULL;
    }
    description->bytes = grown;
    description->capacity = capacity;
  }
  uint8_t *start = description->bytes + description->length;
  memset(start, 0, padded);
  if (data != NULL)
    memcpy(start, data, bytes);
  description->length += padded;
  return start;
}

static void put_pair(struct description *description, uint32_t first, uint32_t second) {
  put(description, (uint32_t[2]){first, second}, 8);
}

static void add_u32(struct description *description, size_t at, uint32_t value) {
  uint32_t sum;
  if (description->failed)
    return;
  memcpy(&sum, description->bytes + at, 4);
  sum += value;
  memcpy(description->bytes + at, &sum, 4);
}

void begin_description(struct description *description) {
  uint64_t context = current_context();
  *description = (struct description){0};
  put_pair(description, DESCRIPTION_VERSION, 0);
  put(description, &context, 8);
}

void end_description(struct description *description) {
  if (description->failed)
    free_description(description);
}

void begin_graph(struct description *description, uint32_t nodes) { put_pair(description, nodes, 0); }

enum { HEAD_DEPENDENCIES = 12, HEAD_PARTS = 16 };

struct node_writer begin_node(struct description *description, uint64_t handle, uint32_t type) {
  struct node_writer node = {
      .description = description,
      .head = description->length,
      .place = description->nodes.count,
      .node = {.handle = handle, .type = type, .depth = description->depth},
  };
  put(description, (uint64_t[3]){handle, type, 0}, 24);
  if (!add_node(&description->nodes, &node.node))
    description->failed = true;
  return node;
}

// data: a CUgraphEdgeData.
static void put_dependency(struct node_writer *node, uint32_t index, const uint8_t data[8]) {
  put_pair(node->description, index, 0);
  put(node->description, data, 8);
  add_u32(node->description, node->head + HEAD_DEPENDENCIES, 1);
}

uint8_t *put_part(struct node_writer *node, enum node_part part, const void *data, size_t bytes) {
  put_pair(node->description, part, (uint32_t)bytes);
  add_u32(node->description, node->head + HEAD_PARTS, 1);
  return put(node->description, data, bytes);
}

void put_problem(struct node_writer *node, const char *text) {
  put_part(node, PART_PROBLEM, text, strlen(text));
}

size_t begin_part(struct node_writer *node, enum node_part part) {
  put_part(node, part, NULL, 0);
  return node->description->length;
}

void end_part(struct node_writer *node, size_t start) {
  add_u32(node->description, start - 4, (uint32_t)(node->description->length - start));
}

void end_node(struct node_writer *node) {
  if (node->description->failed)
    free_node(&node->node);
  else
    node->description->nodes.items[node->place] = node->node;
}

// ---- asking -------------------------------------------------------------------------------------

enum { MAX_NODES = 1 << 20 };

// Of those that are valid for graph nodes all that are not zero; who has set them is for the reader to say.
static void put_attributes(struct node_writer *writer) {
  static const uint32_t ids[] = {NODE_ATTRIBUTES};
  struct CUlaunchAttribute found[sizeof ids / sizeof *ids];
  size_t count = 0;
  for (size_t n = 0; n < sizeof ids / sizeof *ids; n++) {
    struct CUlaunchAttribute *item = &found[count];
    *item = (struct CUlaunchAttribute){.id = ids[n]};
    if (ASK("cuGraphKernelNodeGetAttribute", writer->node.handle, ids[n], word(&item->value)) == SUCCESS &&
        !is_zero(item->value.pad, sizeof item->value.pad))
      count++;
  }
  if (count > 0)
    put_part(writer, PART_ATTRIBUTES, found, count * sizeof *found);
}

struct place {
  uint64_t handle;
  uint32_t index;
};

static int compare_places(const void *a, const void *b) {
  uint64_t first = ((const struct place *)a)->handle, second = ((const struct place *)b)->handle;
  return first < second ? -1 : first > second;
}

static bool ask_dependencies(uint64_t node, uint64_t *found, uint8_t *data, size_t *count) {
  int result = ASK("cuGraphNodeGetDependencies_v2", node, word(found), word(data), word(count));
  if (result == ERROR_SYMBOL_NOT_FOUND)
    result = ASK("cuGraphNodeGetDependencies", node, word(found), word(count));
  return result == SUCCESS;
}

// In the order of the edges, which cuGraphExecUpdate goes by. False: the driver would not say.
static bool put_dependencies(struct node_writer *writer, const struct place *places, size_t count) {
  uint64_t handle = writer->node.handle;
  size_t edges = 0;
  if (!ask_dependencies(handle, NULL, NULL, &edges))
    return false;
  if (edges == 0)
    return true;
  if (edges > MAX_NODES)
    return false;
  uint64_t *found = calloc(edges, 16);
  if (found == NULL)
    return false;
  uint8_t *data = (uint8_t *)(found + edges);
  bool whole = ask_dependencies(handle, found, data, &edges);
  for (size_t n = 0; whole && n < edges; n++) {
    struct place wanted = {found[n], 0};
    const struct place *place = bsearch(&wanted, places, count, sizeof *places, compare_places);
    whole = place != NULL;
    if (whole)
      put_dependency(writer, place->index, data + 8 * n);
  }
  free(found);
  return whole;
}

static void put_node(struct description *description, uint64_t handle, const struct place *places,
                     size_t count) {
  struct CUgraphNodeParams parameters = {0};
  if (ASK("cuGraphNodeGetType", handle, word(&parameters.type)) != SUCCESS) {
    description->failed = true;
    return;
  }
  struct node_writer writer = begin_node(description, handle, parameters.type);
  if (!put_dependencies(&writer, places, count))
    description->failed = true;
  else if (ask_parameters(handle, &parameters))
    put_parameters(&writer, &parameters);
  else
    put_problem(&writer, "the driver does not say what it does");
  if (parameters.type == NODE_KERNEL) {
    put_attributes(&writer);
    uint32_t origin = origin_of_node(handle);
    if (origin != 0)
      put_part(&writer, PART_ORIGIN, &origin, sizeof origin);
  }
  end_node(&writer);
}

void put_graph(struct description *description, uint64_t graph) {
  size_t count = 0;
  if (graph == 0 || description->depth > MAX_GRAPH_DEPTH ||
      ASK("cuGraphGetNodes", graph, 0, word(&count)) != SUCCESS || count > MAX_NODES) {
    description->failed = true;
    return;
  }
  description->graphs[description->depth] = graph;
  uint64_t *nodes = calloc(count + 1, sizeof *nodes);
  struct place *places = calloc(count + 1, sizeof *places);
  if (nodes == NULL || places == NULL ||
      (count > 0 && ASK("cuGraphGetNodes", graph, word(nodes), word(&count)) != SUCCESS))
    description->failed = true;
  begin_graph(description, (uint32_t)count);
  if (!description->failed) {
    for (size_t n = 0; n < count; n++)
      places[n] = (struct place){nodes[n], (uint32_t)n};
    qsort(places, count, sizeof *places, compare_places);
  }
  for (size_t n = 0; n < count && !description->failed; n++)
    put_node(description, nodes[n], places, count);
  free(nodes);
  free(places);
}

void describe_graph(struct description *description, uint64_t graph) {
  begin_description(description);
  put_graph(description, graph);
  end_description(description);
}
