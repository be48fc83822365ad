// What the nodes of an executable graph can touch, taken from the description of the graph it was made of.
#include "graph/executable.h"

#include "arguments/arguments.h"
#include "graph/description.h"
#include "objects/kernels.h"

#include <stdlib.h>
#include <string.h>

static void free_node(struct graph_node *node) {
  free(node->words);
  free(node->operations);
}

void free_nodes(struct node_list *list) {
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
  case NODE_MEM_ALLOC:
    node->spans[0] = (struct span){word_at(member, 112), word_at(member, 104)};
    break;
  case NODE_MEM_FREE:
    node->spans[0] = (struct span){word_at(member, 0), 1};
    break;
  case NODE_BATCH_MEM_OP:
    take_operations(node, described);
    break;
  default:
    break;
  }
  return true;
}

struct node_list nodes_of(const struct description *description) {
  struct node_list list = {0};
  if (!visit_nodes(description, take_node, &list))
    list.failed = true;
  return list;
}

void exchange_nodes(struct node_list *list, size_t first, size_t count, struct node_list *from) {
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

static bool has_node(const struct node_list *list, uint32_t type, uint64_t address) {
  for (size_t n = 0; n < list->count; n++)
    if (list->items[n].type == type && list->items[n].spans[0].address == address)
      return true;
  return false;
}

bool is_left_over(const struct node_list *list, const struct graph_node *node) {
  return (node->type == NODE_MEM_ALLOC && !has_node(list, NODE_MEM_FREE, node->spans[0].address)) ||
         (node->type == NODE_MEM_FREE && !has_node(list, NODE_MEM_ALLOC, node->spans[0].address));
}
