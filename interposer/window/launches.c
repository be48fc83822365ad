// The list of launches that `replay capture --list` prints: counts and GPU times by kernel and geometry.
//
// Nothing is recorded and no memory is read. The rows are in a shared mapping of launches.<pid>.bin, so
// that they are there however the process ends. Rows and names are only ever added, under the lock; counting
// takes none. The layout is replay/raw/FORMAT.md; `replay/capture/launches.py` reads it.
#define _GNU_SOURCE
#include "window/launches.h"

#include "arguments/arguments.h"
#include "base/bytes.h"
#include "base/fork.h"
#include "base/selection.h"
#include "graph/graph.h"
#include "objects/kernels.h"
#include "record/files.h"
#include "window/timing.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  FILE_BYTES = 2 << 20,
  FORMAT_VERSION = 1,
  ROWS = 8000,
  ROW_BYTES = 128,
  NAMES_OFFSET = 64 + ROWS * ROW_BYTES,
  NAMES_BYTES = FILE_BYTES - NAMES_OFFSET,
  MAX_NAME_BYTES = 4096,
  HASH_SLOTS = 16384,
};

struct list_row {
  _Atomic uint64_t launches, timed, total_ns, shortest_ns, longest_ns;
  uint64_t first_ordinal; // of its first launch, among those of kernels of this name, from 1
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  uint32_t name_offset;
  uint32_t function; // Function.id
  uint8_t zero[40];
  _Atomic uint32_t whole; // 1, written last
};
_Static_assert(sizeof(struct list_row) == ROW_BYTES, "FORMAT.md");

struct list_header {
  char magic[8];
  uint32_t version, pid;
  uint32_t row_bytes, row_capacity;
  uint64_t names_offset;
  _Atomic uint64_t launches;  // all of them
  _Atomic uint64_t unlisted;  // of these, launches for which there was no row left
  _Atomic uint64_t in_graphs; // of these, launches by launches of graphs
  uint64_t zero;
};
_Static_assert(sizeof(struct list_header) == 64, "FORMAT.md");

struct name {
  const char *text;
  uint32_t offset;
  _Atomic uint64_t launches;
};

static MUTEX(lock);
static struct file list_file = NO_FILE;
static uint8_t *mapped;
static size_t rows_used, names_used, name_bytes_used;
static _Atomic uint32_t slots_of_rows[HASH_SLOTS]; // number of a row, from 1; 0: empty
static const struct kernel *kernel_of_row[ROWS];
static struct name names[ROWS];

static struct list_header *header(void) { return (struct list_header *)(void *)mapped; }
static struct list_row *row_at(size_t n) { return (struct list_row *)(void *)(mapped + 64 + n * ROW_BYTES); }

bool open_launch_list(void) {
  if (!create_beside_calls(&list_file, "launches") || (mapped = map_file(&list_file, 0, FILE_BYTES)) == NULL)
    return false;
  *header() = (struct list_header){.magic = "RCAPLIST",
                                   .version = FORMAT_VERSION,
                                   .pid = (uint32_t)getpid(),
                                   .row_bytes = ROW_BYTES,
                                   .row_capacity = ROWS,
                                   .names_offset = NAMES_OFFSET};
  return true;
}

// The mapping stays the parent's.
static void reset(void) {
  if (mapped != NULL)
    munmap(mapped, FILE_BYTES);
  mapped = NULL;
  close_file(&list_file);
  rows_used = names_used = name_bytes_used = 0;
  memset((void *)slots_of_rows, 0, sizeof slots_of_rows);
  memset((void *)names, 0, sizeof names);
}
IN_CHILD(reset);

// ---- rows ---------------------------------------------------------------------------------------

struct geometry {
  uint32_t grid[3], block[3], shared_bytes;
};

// Where each launch function has its geometry: cuda.h.
static bool read_geometry(const struct call *call, struct geometry *geometry) {
  const uint64_t *arguments = call->arguments;
  uint32_t words[7];
  switch (call->function->id) {
  case ID_cuLaunchKernel:
  case ID_cuLaunchCooperativeKernel:
    for (int n = 0; n < 7; n++)
      words[n] = (uint32_t)arguments[1 + n];
    break;
  case ID_cuLaunchKernelEx: // CUlaunchConfig begins with the seven numbers
    if (arguments[0] == 0 || !read_memory(words, (const void *)(uintptr_t)arguments[0], sizeof words))
      return false;
    break;
  default:
    if (!is_old_launch(call))
      return false;
    old_launch_geometry(call, words);
  }
  memcpy(geometry, words, sizeof words);
  return true;
}

static size_t hash_of(const struct kernel *kernel, const struct geometry *geometry) {
  uint64_t value = (uint64_t)(uintptr_t)kernel;
  uint32_t words[7];
  memcpy(words, geometry, sizeof words);
  for (int n = 0; n < 7; n++)
    value = (value ^ words[n]) * 0x9e3779b97f4a7c15u;
  return (size_t)(value >> 40);
}

static struct list_row *find_list_row(const struct kernel *kernel, const struct geometry *geometry) {
  for (size_t n = hash_of(kernel, geometry), steps = 0; steps < HASH_SLOTS; n++, steps++) {
    uint32_t number = atomic_load_explicit(&slots_of_rows[n % HASH_SLOTS], memory_order_acquire);
    if (number == 0)
      return NULL;
    struct list_row *row = row_at(number - 1);
    if (kernel_of_row[number - 1] == kernel && memcmp(row->grid, geometry, sizeof *geometry) == 0)
      return row;
  }
  return NULL;
}

// Kernels of several modules may have one name. NULL: no room.
static struct name *name_of(struct kernel *kernel) {
  uint32_t number = atomic_load_explicit(&kernel->list_name, memory_order_acquire);
  if (number != 0)
    return &names[number - 1];
  size_t length = strnlen(kernel->name, MAX_NAME_BYTES), n = 0;
  struct name *name = NULL;
  pthread_mutex_lock(&lock);
  while (n < names_used && strcmp(names[n].text, kernel->name) != 0)
    n++;
  if (n < names_used) {
    name = &names[n];
  } else if (n < ROWS && name_bytes_used + length < NAMES_BYTES) {
    name = &names[names_used++];
    name->text = kernel->name;
    name->offset = (uint32_t)name_bytes_used;
    memcpy(mapped + NAMES_OFFSET + name_bytes_used, kernel->name, length); // a NUL follows
    name_bytes_used += length + 1;
  }
  if (name != NULL)
    atomic_store_explicit(&kernel->list_name, (uint32_t)n + 1, memory_order_release);
  pthread_mutex_unlock(&lock);
  return name;
}

static struct list_row *add_list_row(const struct kernel *kernel, const struct name *name,
                                     const struct geometry *geometry, unsigned function, uint64_t ordinal) {
  pthread_mutex_lock(&lock);
  struct list_row *row = find_list_row(kernel, geometry);
  if (row == NULL && rows_used < ROWS) {
    row = row_at(rows_used);
    row->first_ordinal = ordinal;
    row->name_offset = name->offset;
    memcpy(row->grid, geometry, sizeof *geometry); // grid, block and shared_bytes are one after another
    row->function = function;
    atomic_store(&row->shortest_ns, UINT64_MAX);
    atomic_store_explicit(&row->whole, 1, memory_order_release);
    kernel_of_row[rows_used++] = kernel;
    size_t n = hash_of(kernel, geometry);
    while (atomic_load(&slots_of_rows[n % HASH_SLOTS]) != 0)
      n++;
    atomic_store_explicit(&slots_of_rows[n % HASH_SLOTS], (uint32_t)rows_used, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return row;
}

// ---- one launch ---------------------------------------------------------------------------------

// NULL: there is no room for it. `geometry` is NULL when it is not known.
static struct list_row *count_launch(struct kernel *kernel, const struct geometry *geometry,
                                     unsigned function) {
  atomic_fetch_add(&header()->launches, 1);
  struct name *name = name_of(kernel);
  uint64_t ordinal = name != NULL ? atomic_fetch_add(&name->launches, 1) + 1 : 0;
  struct list_row *row = NULL;
  if (name != NULL && geometry != NULL) {
    row = find_list_row(kernel, geometry);
    if (row == NULL)
      row = add_list_row(kernel, name, geometry, function, ordinal);
  }
  if (row == NULL)
    atomic_fetch_add(&header()->unlisted, 1);
  return row;
}

static void count_in_graph(struct kernel *kernel, const uint32_t words[7], void *state) {
  struct geometry geometry;
  memcpy(&geometry, words, sizeof geometry);
  struct list_row *row = count_launch(kernel, &geometry, ((struct call *)state)->function->id);
  atomic_fetch_add(&header()->in_graphs, 1);
  if (row != NULL)
    atomic_fetch_add(&row->launches, 1);
}

void list_launches_of(struct call *call) {
  if (mapped == NULL || !is_any_launch(call->function) || (selection.bounded && !inside_selected_range()))
    return;
  uint64_t launched = call->arguments[call->function->effect_terms[0].first];
  if (call->function->effect == EFFECT_GRAPH_LAUNCH) {
    visit_matching_kernels(launched, count_in_graph, call);
    return;
  }
  struct geometry geometry;
  struct kernel *kernel = kernel_of_handle(launched);
  if (!kernel_matches(kernel))
    return;
  struct list_row *row =
      count_launch(kernel, read_geometry(call, &geometry) ? &geometry : NULL, call->function->id);
  if (row != NULL && is_timed(atomic_fetch_add(&row->launches, 1) + 1))
    begin_timing(call, row);
}

void add_listed_time(struct list_row *row, uint64_t time_ns) {
  atomic_fetch_add(&row->timed, 1);
  atomic_fetch_add(&row->total_ns, time_ns);
  uint64_t shortest = atomic_load(&row->shortest_ns), longest = atomic_load(&row->longest_ns);
  while (time_ns < shortest && !atomic_compare_exchange_weak(&row->shortest_ns, &shortest, time_ns)) {
  }
  while (time_ns > longest && !atomic_compare_exchange_weak(&row->longest_ns, &longest, time_ns)) {
  }
}
