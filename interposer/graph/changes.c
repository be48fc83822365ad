// Changes of executable graphs while no window is open. A program may make one at every step, and only the
// latest of each node says what a later window launches, so they are kept here and written when one opens.
#include "graph/description.h"
#include "record/encode.h"

enum { BUCKETS = 1 << 12 };

// A change of the same function to the same node of the same graph makes an earlier one void.
struct change {
  struct change *next;
  const struct function *function;
  uint64_t graph, node; // node 0: the whole graph
  uint64_t order;
  uint64_t arguments[MAX_PARAMETERS];
  uint16_t record_function;
  uint8_t *description; // NULL: none was made
  size_t description_bytes;
};

static MUTEX(lock);
static ZERO_IN_CHILD struct change *buckets[BUCKETS];
static ZERO_IN_CHILD size_t kept;
static uint64_t last_order;

bool graph_change_can_wait(const struct call *call) {
  enum effect effect = call->function->effect;
  return effect == EFFECT_GRAPH_UPDATE || effect == EFFECT_GRAPH_NODE || effect == EFFECT_GRAPH_ENABLE;
}

static struct change **bucket_of(uint64_t graph, uint64_t node) {
  return &buckets[((graph * 31 ^ node) * 0x9e3779b97f4a7c15u) >> 52];
}

static void write_change(const struct change *change) {
  struct attachment item = {.parameter = (uint16_t)change->function->effect_terms[0].first, .part = 1};
  bool described = change->description != NULL;
  if (!described || set_bytes(&item, change->description, change->description_bytes))
    record_made_call(change->function, change->record_function, change->arguments, described ? &item : NULL,
                     NULL);
}

// With the lock held.
static void drop(struct change **place) {
  struct change *change = *place;
  *place = change->next;
  free(change->description);
  free(change);
  kept--;
}

static int by_order(const void *a, const void *b) {
  uint64_t x = (*(struct change *const *)a)->order, y = (*(struct change *const *)b)->order;
  return (x > y) - (x < y);
}

// With the lock held.
static void write_all(void) {
  struct change **all = kept > 0 ? malloc(kept * sizeof *all) : NULL;
  size_t count = 0;
  if (all == NULL)
    return;
  for (size_t n = 0; n < BUCKETS; n++)
    for (struct change *change = buckets[n]; change != NULL; change = change->next)
      all[count++] = change;
  qsort(all, count, sizeof *all, by_order);
  for (size_t n = 0; n < count; n++)
    write_change(all[n]);
  for (size_t n = 0; n < BUCKETS; n++)
    while (buckets[n] != NULL)
      drop(&buckets[n]);
  free(all);
}

void write_graph_changes(void) {
  HOLD(lock);
  write_all();
}

static bool makes_void(const struct change *change, const struct change *old) {
  return old->graph == change->graph && old->node == change->node && old->function == change->function;
}

// The description changes hands.
void keep_graph_change(struct call *call) {
  struct change *change = malloc(sizeof *change);
  if (change == NULL)
    return;
  *change = (struct change){
      .function = call->function,
      .record_function = call->record_function,
      .graph = call->arguments[0],
      .node = call->function->effect == EFFECT_GRAPH_UPDATE ? 0 : call->arguments[1],
  };
  memcpy(change->arguments, call->arguments, (size_t)call->function->parameter_count * 8);
  if (call->description != NULL) {
    change->description = call->description->bytes;
    change->description_bytes = call->description->length;
    call->description->bytes = NULL;
  }
  HOLD(lock);
  struct change **bucket = bucket_of(change->graph, change->node), **old = bucket;
  while (*old != NULL && !makes_void(change, *old))
    old = &(*old)->next;
  if (*old != NULL)
    drop(old);
  change->order = ++last_order;
  change->next = *bucket;
  *bucket = change;
  kept++;
  if (current_mode() != MODE_CLOSED) // a window has opened, and nobody else comes to write it
    write_all();
}

// Of a graph that ends, or that begins under a handle whose end was not seen.
void forget_graph_changes(uint64_t graph) {
  HOLD(lock);
  for (size_t n = 0; kept > 0 && n < BUCKETS; n++)
    for (struct change **place = &buckets[n]; *place != NULL;)
      if ((*place)->graph == graph)
        drop(place);
      else
        place = &(*place)->next;
}
