// The bytes of a description, written and read again. The layout is replay/raw/FORMAT.md.
#include "graph/description.h"

#include "driver/ask.h"

#include <stdlib.h>
#include <string.h>

enum { DESCRIPTION_VERSION = 1, MAX_BYTES = 256 << 20 };

// ---- writing ------------------------------------------------------------------------------------

void free_description(struct description *description) {
  free(description->bytes);
  *description = (struct description){0};
}

// NULL: failed.
static uint8_t *grow(struct description *description, size_t bytes) {
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
  description->length += padded;
  return start;
}

static void put(struct description *description, const void *data, size_t bytes) {
  uint8_t *start = grow(description, bytes);
  if (start != NULL && bytes > 0)
    memcpy(start, data, bytes);
}

static void put_pair(struct description *description, uint32_t first, uint32_t second) {
  put(description, (uint32_t[2]){first, second}, 8);
}

static void patch_u32(struct description *description, size_t at, uint32_t value) {
  if (!description->failed)
    memcpy(description->bytes + at, &value, 4);
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
  struct node_writer node = {.description = description, .head = description->length};
  put(description, &handle, 8);
  put_pair(description, type, 0);
  put_pair(description, 0, 0);
  return node;
}

void put_dependency(struct node_writer *node, uint32_t index, const uint8_t data[8]) {
  put_pair(node->description, index, 0);
  put(node->description, data, 8);
  node->dependencies++;
}

uint8_t *put_empty_part(struct node_writer *node, enum node_part part, size_t bytes) {
  put_pair(node->description, part, (uint32_t)bytes);
  node->parts++;
  return grow(node->description, bytes);
}

void put_part(struct node_writer *node, enum node_part part, const void *data, size_t bytes) {
  uint8_t *start = put_empty_part(node, part, bytes);
  if (start != NULL && bytes > 0)
    memcpy(start, data, bytes);
}

void put_problem(struct node_writer *node, const char *text) {
  put_part(node, PART_PROBLEM, text, strlen(text));
}

size_t begin_part(struct node_writer *node, enum node_part part) {
  put_pair(node->description, part, 0);
  node->parts++;
  return node->description->length;
}

void end_part(struct node_writer *node, size_t start) {
  patch_u32(node->description, start - 4, (uint32_t)(node->description->length - start));
}

void end_node(struct node_writer *node) {
  patch_u32(node->description, node->head + HEAD_DEPENDENCIES, node->dependencies);
  patch_u32(node->description, node->head + HEAD_PARTS, node->parts);
}

// ---- reading ------------------------------------------------------------------------------------

struct reading {
  const uint8_t *at;
  bool (*visit)(const struct described_node *, void *);
  void *state;
};

static uint32_t take_u32(struct reading *reading) {
  uint32_t value;
  memcpy(&value, reading->at, 4);
  reading->at += 4;
  return value;
}

struct part {
  uint32_t what, length;
  const uint8_t *bytes;
};

static struct part take_part(struct reading *reading) {
  struct part part = {.what = take_u32(reading)};
  part.length = take_u32(reading);
  part.bytes = reading->at;
  reading->at += ((size_t)part.length + 7) & ~(size_t)7;
  return part;
}

// The bytes were written above, so they are as they should be.
static bool visit_graph(struct reading *reading, uint32_t depth) {
  uint32_t count = take_u32(reading);
  take_u32(reading);
  for (uint32_t n = 0; n < count; n++) {
    struct described_node node = {.depth = depth};
    memcpy(&node.handle, reading->at, 8);
    reading->at += 8;
    node.type = take_u32(reading);
    uint32_t dependencies = take_u32(reading), parts = take_u32(reading);
    reading->at += 4 + (size_t)dependencies * 16;
    struct reading inside = *reading;
    for (uint32_t n_part = 0; n_part < parts; n_part++) {
      struct part part = take_part(reading);
      node.part[part.what] = part.bytes;
      node.part_bytes[part.what] = part.length;
    }
    if (!reading->visit(&node, reading->state))
      return false;
    for (uint32_t n_part = 0; n_part < parts; n_part++) {
      struct part part = take_part(&inside);
      struct reading graph = {part.bytes, reading->visit, reading->state};
      if ((part.what == PART_CHILD || part.what == PART_BODY) && !visit_graph(&graph, depth + 1))
        return false;
    }
  }
  return true;
}

bool visit_nodes(const struct description *description, bool (*visit)(const struct described_node *, void *),
                 void *state) {
  if (description->bytes == NULL)
    return false;
  struct reading reading = {description->bytes + 16, visit, state};
  return visit_graph(&reading, 0);
}
