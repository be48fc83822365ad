// Handles of the application, and what belongs to each.
//
// A launch with no window open asks such a table and nothing else, so it is read without a lock: a row never
// changes to another handle, and one whose handle ends stays as a dead row. A table that fills up is
// replaced; the old one is left as it is, because another thread may still be reading it. Everything but
// finding is called with a lock of the owner held.
#pragma once

#include "base/base.h"

enum { DEAD_HANDLE = 1 }; // no handle is 1

struct handle_row {
  _Atomic uint64_t handle; // 0: empty, DEAD_HANDLE
  _Atomic uint32_t state;  // the owner's; 0 in a new row
  void *object;
};

struct handle_rows {
  size_t mask, used; // used counts dead rows
  struct handle_row items[];
};

struct handle_table {
  _Atomic(struct handle_rows *) rows;
};

static inline size_t place_of_handle(uint64_t handle) {
  return (size_t)((handle * 0x9e3779b97f4a7c15u) >> 32);
}

// The quickest way, for a launch with no window open. For 0 and DEAD_HANDLE, which are no handles, it may
// find a row that is empty or dead.
static inline struct handle_row *find_row(struct handle_table *table, uint64_t handle) {
  struct handle_rows *rows = atomic_load_explicit(&table->rows, memory_order_acquire);
  if (rows == NULL)
    return NULL;
  for (size_t n = place_of_handle(handle);; n++) {
    struct handle_row *row = &rows->items[n & rows->mask];
    uint64_t found = atomic_load_explicit(&row->handle, memory_order_acquire);
    if (found == handle)
      return row;
    if (found == 0)
      return NULL;
  }
}

static inline struct handle_row *find_handle(struct handle_table *table, uint64_t handle) {
  return handle > DEAD_HANDLE ? find_row(table, handle) : NULL;
}

static inline void end_handle(struct handle_row *row) { atomic_store(&row->handle, DEAD_HANDLE); }

bool add_handle(struct handle_table *table, uint64_t handle, void *object); // false: no memory
// The next living row from `*position` on; NULL: there is none.
struct handle_row *next_handle(const struct handle_table *table, size_t *position);
