// The list of launches that `replay capture --list` prints: counts and GPU times by kernel and geometry.
//
// Nothing is recorded and no memory is read. The rows stand in a shared mapping of launches.<pid>.bin, so
// that they are there however the process ends. Rows and names are only ever added, under the lock; counting
// takes none. The layout is replay/capture/FORMAT.md; `replay/capture/launches.py` reads it.
#define _GNU_SOURCE
#include "files.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CAPTURE_MODE_RELAXED = 2 }; // CU_STREAM_CAPTURE_MODE_RELAXED

enum {
  FILE_BYTES = 2 << 20,
  FORMAT_VERSION = 1,
  ROWS = 8000,
  ROW_BYTES = 128,
  NAMES_OFFSET = 64 + ROWS * ROW_BYTES,
  NAMES_BYTES = FILE_BYTES - NAMES_OFFSET,
  MAX_NAME_BYTES = 4096,
  HASH_SLOTS = 16384,
  // A row's first launches are timed, then its 16th, 32nd, ...: an event costs about as much as a launch.
  TIMED_AT_FIRST = 8,
  TIMINGS = 256, // under way at most
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
  _Atomic uint64_t in_graphs; // of these, launches into a stream that was being captured
  uint64_t zero;
};
_Static_assert(sizeof(struct list_header) == 64, "FORMAT.md");

enum { TIMING_FREE, TIMING_TAKEN, TIMING_UNDER_WAY };

// No lock may be held across a call of the driver: who takes a timing is the only one to look at it.
struct timing {
  _Atomic int state;
  struct list_row *row;
  uint64_t start, stop, context; // CUevent, CUevent, CUcontext
};

struct name {
  const char *text;
  uint32_t offset;
  _Atomic uint64_t launches;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file list_file = {-1, 0, 0};
static uint8_t *mapped;
static size_t rows_used, names_used, name_bytes_used;
static _Atomic uint32_t slots_of_rows[HASH_SLOTS]; // number of a row, from 1; 0: empty
static const struct kernel *kernel_of_row[ROWS];
static struct name names[ROWS];
static struct timing timings[TIMINGS];

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
void reset_launch_list_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  if (mapped != NULL)
    munmap(mapped, FILE_BYTES);
  mapped = NULL;
  close_file(&list_file);
  rows_used = names_used = name_bytes_used = 0;
  memset((void *)slots_of_rows, 0, sizeof slots_of_rows);
  memset((void *)names, 0, sizeof names);
  memset((void *)timings, 0, sizeof timings); // the parent's events
}

// ---- rows ---------------------------------------------------------------------------------------

struct geometry {
  uint32_t grid[3], block[3], shared_bytes;
};

// Where each launch function has its geometry and its stream: cuda.h.
static bool read_geometry(const struct call *call, struct geometry *geometry, uint64_t *stream) {
  const uint64_t *arguments = call->arguments;
  uint32_t words[7];
  switch (call->function->id) {
  case ID_cuLaunchKernel:
  case ID_cuLaunchCooperativeKernel:
    for (int n = 0; n < 7; n++)
      words[n] = (uint32_t)arguments[1 + n];
    *stream = arguments[8];
    break;
  case ID_cuLaunchKernelEx: // CUlaunchConfig: seven numbers, padding, the stream
    if (arguments[0] == 0 || !read_memory(words, (const void *)(uintptr_t)arguments[0], sizeof words) ||
        !read_memory(stream, (const void *)(uintptr_t)(arguments[0] + 32), sizeof *stream))
      return false;
    break;
  default:
    return false;
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
    memcpy(row->grid, geometry, sizeof *geometry); // grid, block and shared_bytes stand together
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

// ---- GPU times ----------------------------------------------------------------------------------

// Asking for an event may spoil another thread's stream capture, unless the asking thread says that it knows
// what it does. Not yet seen on a GPU.
static void exchange_capture_mode(int *capture_mode) {
  int (*exchange)(int *) = driver_symbol("cuThreadExchangeStreamCaptureMode");
  if (exchange != NULL)
    exchange(capture_mode);
}

static void end_timing(struct timing *timing) {
  int (*destroy)(uint64_t) = driver_symbol("cuEventDestroy_v2");
  if (timing->start != 0 && destroy != NULL)
    destroy(timing->start);
  if (timing->stop != 0 && destroy != NULL)
    destroy(timing->stop);
  timing->start = timing->stop = 0;
  atomic_store_explicit(&timing->state, TIMING_FREE, memory_order_release);
}

static bool take_timing(struct timing *timing, int from) {
  return atomic_compare_exchange_strong(&timing->state, &from, TIMING_TAKEN);
}

static void add_time(struct list_row *row, uint64_t time_ns) {
  atomic_fetch_add(&row->timed, 1);
  atomic_fetch_add(&row->total_ns, time_ns);
  uint64_t shortest = atomic_load(&row->shortest_ns), longest = atomic_load(&row->longest_ns);
  while (time_ns < shortest && !atomic_compare_exchange_weak(&row->shortest_ns, &shortest, time_ns)) {
  }
  while (time_ns > longest && !atomic_compare_exchange_weak(&row->longest_ns, &longest, time_ns)) {
  }
}

// Takes over what has ended. A `context` that is about to end takes its events with it, ended or not.
static void collect_timings(uint64_t context) {
  int (*query)(uint64_t) = driver_symbol("cuEventQuery");
  int (*elapsed)(float *, uint64_t, uint64_t) = driver_symbol("cuEventElapsedTime");
  for (struct timing *timing = timings; timing < timings + TIMINGS; timing++) {
    if (query == NULL || elapsed == NULL || !take_timing(timing, TIMING_UNDER_WAY))
      continue;
    if (context != 0 && timing->context != context) {
      atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
      continue;
    }
    int result = query(timing->stop);
    float milliseconds = 0;
    if (result == SUCCESS && elapsed(&milliseconds, timing->start, timing->stop) == SUCCESS)
      add_time(timing->row, (uint64_t)((double)milliseconds * 1e6 + 0.5));
    if (result == ERROR_NOT_READY && context == 0)
      atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
    else
      end_timing(timing);
  }
}

static int record_event(const struct call *call, uint64_t event) {
  bool per_thread = (call->record_function & PER_THREAD_BIT) != 0;
  int (*record)(uint64_t, uint64_t) = driver_symbol(per_thread ? "cuEventRecord_ptsz" : "cuEventRecord");
  return record != NULL ? record(event, call->stream) : ERROR_SYMBOL_NOT_FOUND;
}

static struct timing *begin_timing(const struct call *call, struct list_row *row) {
  int (*create)(uint64_t *, unsigned) = driver_symbol("cuEventCreate");
  collect_timings(0);
  for (struct timing *timing = timings; create != NULL && timing < timings + TIMINGS; timing++) {
    if (!take_timing(timing, TIMING_FREE))
      continue;
    timing->row = row;
    timing->context = current_context();
    if (create(&timing->start, 0) == SUCCESS && create(&timing->stop, 0) == SUCCESS &&
        record_event(call, timing->start) == SUCCESS)
      return timing;
    end_timing(timing);
    return NULL;
  }
  return NULL;
}

// ---- one launch ---------------------------------------------------------------------------------

static bool is_timed(uint64_t launch) { return launch <= TIMED_AT_FIRST || (launch & (launch - 1)) == 0; }

void list_launch(struct call *call) {
  struct geometry geometry;
  struct kernel *kernel = kernel_of_handle(call->arguments[call->function->effect_terms[0].first]);
  if (mapped == NULL || !kernel_matches(kernel) || (selection.bounded && !inside_selected_range()))
    return;
  atomic_fetch_add(&header()->launches, 1);
  struct name *name = name_of(kernel);
  uint64_t ordinal = name != NULL ? atomic_fetch_add(&name->launches, 1) + 1 : 0;
  struct list_row *row = NULL;
  if (name != NULL && read_geometry(call, &geometry, &call->stream)) {
    row = find_list_row(kernel, &geometry);
    if (row == NULL)
      row = add_list_row(kernel, name, &geometry, call->function->id, ordinal);
  }
  if (row == NULL) {
    atomic_fetch_add(&header()->unlisted, 1);
    return;
  }
  uint64_t launch = atomic_fetch_add(&row->launches, 1) + 1;
  if (atomic_load(&captures_under_way) > 0) {
    atomic_fetch_add(&header()->in_graphs, 1);
  } else if (is_timed(launch)) {
    int capture_mode = CAPTURE_MODE_RELAXED;
    exchange_capture_mode(&capture_mode);
    call->timing = begin_timing(call, row);
    exchange_capture_mode(&capture_mode);
  }
}

void list_launch_ended(struct call *call, int result) {
  struct timing *timing = call->timing;
  if (timing == NULL)
    return;
  int capture_mode = CAPTURE_MODE_RELAXED;
  exchange_capture_mode(&capture_mode);
  if (result == SUCCESS && record_event(call, timing->stop) == SUCCESS)
    atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
  else
    end_timing(timing);
  exchange_capture_mode(&capture_mode);
}

void finish_launch_list(uint64_t context) {
  if (mapped != NULL && atomic_load(&captures_under_way) == 0)
    collect_timings(context);
}
