// Changes of executable graphs while no window is open. A program may make one at every step, and only the
// latest of each node says what a later window launches, so they are kept with the node, those of whole
// graphs with the graph, and written when a window opens. All of this with graphs_lock held.
#include "graph/description.h"
#include "record/encode.h"

struct change {
  struct change *next;
  const struct function *function;
  uint64_t order;
  uint64_t arguments[MAX_PARAMETERS];
  uint16_t record_function;
  uint8_t *description; // NULL: none was made
  size_t description_bytes;
};

ZERO_IN_CHILD size_t kept_changes;
static uint64_t last_order;

bool graph_change_can_wait(const struct call *call) {
  enum effect effect = call->function->effect;
  return effect == EFFECT_GRAPH_UPDATE || effect == EFFECT_GRAPH_NODE || effect == EFFECT_GRAPH_ENABLE;
}

static void write_change(const struct change *change) {
  struct attachment item = {.parameter = (uint16_t)change->function->effect_terms[0].first, .part = 1};
  bool described = change->description != NULL;
  if (!described || set_bytes(&item, change->description, change->description_bytes))
    record_made_call(change->function, change->record_function, change->arguments, described ? &item : NULL,
                     NULL);
}

static void drop(struct change **place) {
  struct change *change = *place;
  *place = change->next;
  free(change->description);
  free(change);
  kept_changes--;
}

void drop_changes(struct change **list) {
  while (*list != NULL)
    drop(list);
}

static int by_order(const void *a, const void *b) {
  uint64_t x = (*(struct change *const *)a)->order, y = (*(struct change *const *)b)->order;
  return (x > y) - (x < y);
}

void move_changes(struct change **from, struct change **to) {
  while (*from != NULL) {
    struct change *change = *from;
    *from = change->next;
    change->next = *to;
    *to = change;
  }
}

void write_changes(struct change *list) {
  struct change **all = malloc(kept_changes * sizeof *all);
  size_t count = 0;
  if (all == NULL)
    stop_capture("no memory for the changes of graphs that came before the window");
  for (struct change *change = list; all != NULL && change != NULL; change = change->next)
    all[count++] = change;
  if (count > 0)
    qsort(all, count, sizeof *all, by_order);
  for (size_t n = 0; n < count; n++)
    write_change(all[n]);
  drop_changes(&list);
  free(all);
}

// A change of the same function to the same node makes an earlier one void. The description changes hands.
void keep_change(struct change **list, struct call *call) {
  struct change *change = malloc(sizeof *change), **old = list;
  bool whole = call->function->effect == EFFECT_GRAPH_UPDATE;
  if (change == NULL)
    return;
  while (*old != NULL &&
         ((*old)->function != call->function || (!whole && (*old)->arguments[1] != call->arguments[1])))
    old = &(*old)->next;
  if (*old != NULL)
    drop(old);
  *change = (struct change){.next = *list,
                            .function = call->function,
                            .order = ++last_order,
                            .record_function = call->record_function,
                            .description = call->description->bytes,
                            .description_bytes = call->description->length};
  memcpy(change->arguments, call->arguments, (size_t)call->function->parameter_count * 8);
  call->description->bytes = NULL;
  *list = change;
  kept_changes++;
}
