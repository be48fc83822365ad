// Changes of executable graphs while no window is open. A program may make one at every step, and only the
// latest of each node says what a later window launches, so they are kept here and written when one opens.
#include "graph/executable.h"

#include "base/fork.h"
#include "base/state.h"
#include "graph/description.h"
#include "graph/graph.h"
#include "record/encode.h"
#include "record/writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 12, MAX_ARGUMENTS = 4 };

// A change of the same function to the same node of the same graph makes an earlier one void.
struct change {
  struct change *next;
  const struct function *function;
  uint64_t graph, node; // node 0: the whole graph
  uint64_t order;
  uint64_t arguments[MAX_ARGUMENTS];
  uint16_t record_function;
  struct description description; // bytes NULL: none was made
};

static MUTEX(lock);
static struct change *buckets[BUCKETS];
static size_t kept;
static uint64_t last_order;

bool changes_whole_graph(unsigned id) { return id == ID_cuGraphExecUpdate || id == ID_cuGraphExecUpdate_v2; }

static bool changes_node(unsigned id) {
  switch (id) {
  case ID_cuGraphExecKernelNodeSetParams:
  case ID_cuGraphExecKernelNodeSetParams_v2:
  case ID_cuGraphExecMemcpyNodeSetParams:
  case ID_cuGraphExecMemsetNodeSetParams:
  case ID_cuGraphExecHostNodeSetParams:
  case ID_cuGraphExecChildGraphNodeSetParams:
  case ID_cuGraphExecEventRecordNodeSetEvent:
  case ID_cuGraphExecEventWaitNodeSetEvent:
  case ID_cuGraphExecBatchMemOpNodeSetParams:
  case ID_cuGraphExecNodeSetParams:
  case ID_cuGraphNodeSetEnabled:
    return true;
  default:
    return false;
  }
}

bool graph_change_can_wait(const struct call *call) {
  unsigned id = call->function->id;
  return call->function->effect == EFFECT_GRAPH && call->function->parameter_count <= MAX_ARGUMENTS &&
         (changes_whole_graph(id) || changes_node(id));
}

static struct change **bucket_of(uint64_t graph, uint64_t node) {
  return &buckets[((graph * 31 ^ node) * 0x9e3779b97f4a7c15u) >> 52];
}

static void free_change(struct change *change) {
  free_description(&change->description);
  free(change);
}

// The one that it makes void leaves its bucket. With the lock held.
static void insert_change(struct change *change) {
  struct change **bucket = bucket_of(change->graph, change->node);
  for (struct change **place = bucket; *place != NULL; place = &(*place)->next) {
    struct change *old = *place;
    if (old->graph != change->graph || old->node != change->node || old->function != change->function)
      continue;
    *place = old->next;
    free_change(old);
    kept--;
    break;
  }
  change->order = ++last_order;
  change->next = *bucket;
  *bucket = change;
  kept++;
}

static void write_change(const struct change *change) {
  const struct description *description = &change->description;
  size_t words = (size_t)change->function->parameter_count * 8;
  bool described = description->bytes != NULL;
  uint64_t number = next_call_number();
  struct attachment item = {.parameter = changes_whole_graph(change->function->id) ? 1 : 2, .part = 1};
  if (described && !set_bytes(&item, description->bytes, description->length))
    return;
  struct record record;
  if (!begin_record(&record, RECORD_ENTER, change->record_function, number,
                    words + (described ? attachment_bytes(&item) : 0)))
    return;
  put_bytes(&record, change->arguments, words);
  if (described)
    put_attachment(&record, &item);
  end_record(&record);
  if (begin_record(&record, RECORD_LEAVE, change->record_function, number, 0))
    end_record(&record);
}

// After a successful call whose ENTER was not written. The description changes hands.
void keep_graph_change(struct call *call) {
  struct change *change = calloc(1, sizeof *change);
  if (change == NULL)
    return;
  change->function = call->function;
  change->record_function = call->record_function;
  memcpy(change->arguments, call->arguments, (size_t)call->function->parameter_count * 8);
  change->graph = call->arguments[0];
  change->node = changes_node(call->function->id) ? call->arguments[1] : 0;
  if (call->description != NULL) {
    change->description = *call->description;
    call->description->bytes = NULL;
  }
  pthread_mutex_lock(&lock);
  bool window_has_opened = current_mode() != MODE_CLOSED; // and what was kept has been written
  if (window_has_opened) {
    write_change(change);
    free_change(change);
  } else {
    insert_change(change);
  }
  pthread_mutex_unlock(&lock);
}

// Of a graph that ends, or that begins under a handle whose end was not seen.
void forget_graph_changes(uint64_t graph) {
  pthread_mutex_lock(&lock);
  for (size_t n = 0; kept > 0 && n < BUCKETS; n++)
    for (struct change **place = &buckets[n]; *place != NULL;) {
      struct change *change = *place;
      if (change->graph != graph) {
        place = &change->next;
        continue;
      }
      *place = change->next;
      free_change(change);
      kept--;
    }
  pthread_mutex_unlock(&lock);
}

static int by_order(const void *a, const void *b) {
  uint64_t x = (*(struct change *const *)a)->order, y = (*(struct change *const *)b)->order;
  return (x > y) - (x < y);
}

void write_graph_changes(void) {
  pthread_mutex_lock(&lock);
  struct change **all = kept > 0 ? malloc(kept * sizeof(struct change *)) : NULL;
  size_t count = 0;
  for (size_t n = 0; all != NULL && n < BUCKETS; n++) {
    for (struct change *change = buckets[n]; change != NULL; change = change->next)
      all[count++] = change;
    buckets[n] = NULL;
  }
  if (all != NULL) {
    kept = 0;
    qsort(all, count, sizeof(struct change *), by_order);
  }
  for (size_t n = 0; n < count; n++) {
    write_change(all[n]);
    free_change(all[n]);
  }
  free(all);
  pthread_mutex_unlock(&lock);
}

static void reset(void) {
  memset(buckets, 0, sizeof buckets); // of the parent's graphs
  kept = 0;
}
IN_CHILD(reset);
