#include "base/handles.h"

enum { LEAST_ROWS = 256 };

static void insert_row(struct handle_rows *rows, uint64_t handle, void *object, uint32_t state) {
  size_t n = place_of_handle(handle);
  while (atomic_load(&rows->items[n & rows->mask].handle) != 0)
    n++;
  struct handle_row *row = &rows->items[n & rows->mask];
  row->object = object;
  atomic_store(&row->state, state);
  atomic_store_explicit(&row->handle, handle, memory_order_release);
  rows->used++;
}

struct handle_row *next_handle(const struct handle_table *table, size_t *position) {
  struct handle_rows *rows = atomic_load(&table->rows);
  while (rows != NULL && *position <= rows->mask) {
    struct handle_row *row = &rows->items[(*position)++];
    if (atomic_load(&row->handle) > DEAD_HANDLE)
      return row;
  }
  return NULL;
}

static struct handle_rows *with_room(struct handle_table *table) {
  struct handle_rows *rows = atomic_load(&table->rows);
  if (rows != NULL && rows->used * 2 < rows->mask)
    return rows;
  size_t live = 0, size = LEAST_ROWS;
  for (size_t position = 0; next_handle(table, &position) != NULL;)
    live++;
  while (size < live * 4)
    size *= 2;
  struct handle_rows *larger = calloc(1, sizeof *larger + size * sizeof(struct handle_row));
  if (larger == NULL)
    return NULL;
  larger->mask = size - 1;
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(table, &position)) != NULL;)
    insert_row(larger, atomic_load(&row->handle), row->object, atomic_load(&row->state));
  atomic_store_explicit(&table->rows, larger, memory_order_release);
  return larger;
}

bool add_handle(struct handle_table *table, uint64_t handle, void *object) {
  struct handle_rows *rows = with_room(table);
  if (rows != NULL)
    insert_row(rows, handle, object, 0);
  return rows != NULL;
}
