// Conditional nodes: what is told when they are made, because no driver says all of it of a finished graph.
//
// Handles and nodes of graphs that have ended stay in the table until their numbers are given out again,
// which is when they are replaced: nothing asks for one that no living graph has.
#include "graph/description.h"

#include "base/fork.h"
#include "driver/real.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, MAX_BODIES = 1 << 16 };

// One conditional handle, or one conditional node.
struct entry {
  struct entry *next;
  uint64_t key;
  bool is_node;
  struct condition condition;
  struct conditional node;
  uint64_t *bodies;
};

static MUTEX(lock);
static struct entry *table[BUCKETS];

static struct entry **bucket_of(uint64_t key) {
  return &table[(key * 0x9e3779b97f4a7c15u) >> 54]; // the upper ten bits
}

// With the lock held. NULL: no such entry.
static struct entry *find(uint64_t key, bool is_node) {
  struct entry *entry = *bucket_of(key);
  while (entry != NULL && (entry->key != key || entry->is_node != is_node))
    entry = entry->next;
  return entry;
}

// With the lock held. NULL: no memory.
static struct entry *find_or_add(uint64_t key, bool is_node) {
  struct entry *entry = find(key, is_node);
  if (entry == NULL && (entry = calloc(1, sizeof *entry)) != NULL) {
    *entry = (struct entry){.next = *bucket_of(key), .key = key, .is_node = is_node};
    *bucket_of(key) = entry;
  }
  return entry;
}

static void *pointer(uint64_t word) { return (void *)(uintptr_t)word; }

static void remember_handle(const uint64_t *arguments) {
  uint64_t handle;
  memcpy(&handle, pointer(arguments[0]), 8);
  pthread_mutex_lock(&lock);
  struct entry *entry = find_or_add(handle, false);
  if (entry != NULL)
    entry->condition =
        (struct condition){arguments[1], arguments[2], (uint32_t)arguments[3], (uint32_t)arguments[4]};
  pthread_mutex_unlock(&lock);
}

static void remember_node(uint64_t node, const struct node_parameters *parameters) {
  struct conditional made;
  memcpy(&made, parameters->member, sizeof made);
  if (made.count > MAX_BODIES || made.bodies == 0)
    return;
  uint64_t *bodies = calloc(made.count + 1, sizeof *bodies);
  if (bodies == NULL)
    return;
  memcpy(bodies, pointer(made.bodies), made.count * sizeof *bodies);
  pthread_mutex_lock(&lock);
  struct entry *entry = find_or_add(node, true);
  if (entry != NULL) {
    free(entry->bodies);
    entry->bodies = bodies;
    entry->node = made;
  } else {
    free(bodies);
  }
  pthread_mutex_unlock(&lock);
}

void follow_conditions(const struct call *call, int result) {
  const uint64_t *arguments = call->arguments;
  uint64_t parameters = 0;
  if (result != SUCCESS || call->function->keep != KEEP_FOLLOWED || arguments[0] == 0)
    return;
  switch (call->function->id) {
  case ID_cuGraphConditionalHandleCreate:
    remember_handle(arguments);
    return;
  case ID_cuGraphAddNode:
    parameters = arguments[4];
    break;
  case ID_cuGraphAddNode_v2:
  case ID_cuGraphAddNode_v3:
    parameters = arguments[5];
    break;
  default:
    return;
  }
  const struct node_parameters *given = pointer(parameters);
  if (given == NULL || given->type != NODE_CONDITIONAL)
    return;
  uint64_t node;
  memcpy(&node, pointer(arguments[0]), 8);
  remember_node(node, given);
}

bool find_condition(uint64_t handle, struct condition *found) {
  pthread_mutex_lock(&lock);
  const struct entry *entry = find(handle, false);
  if (entry != NULL)
    *found = entry->condition;
  pthread_mutex_unlock(&lock);
  return entry != NULL;
}

bool find_conditional(uint64_t node, struct conditional *found, uint64_t **bodies) {
  *bodies = NULL;
  pthread_mutex_lock(&lock);
  const struct entry *entry = find(node, true);
  if (entry != NULL && (*bodies = calloc(entry->node.count + 1, sizeof **bodies)) != NULL) {
    *found = entry->node;
    memcpy(*bodies, entry->bodies, entry->node.count * sizeof **bodies);
  }
  pthread_mutex_unlock(&lock);
  return *bodies != NULL;
}
