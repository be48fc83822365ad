// GPU times of launches inside the application, and the list of launches that `replay capture --list` prints.
#include "arguments/arguments.h"
#include "base/handles.h"
#include "base/selection.h"
#include "driver/real.h"
#include "generated/structs.h"
#include "graph/graph.h"
#include "objects/objects.h"
#include "record/files.h"
#include "record/writer.h"
#include "window/window.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

// ---- times --------------------------------------------------------------------------------------

// By events before and after a launch in its stream. Nothing waits for an event: whether it has passed is
// asked when the next launch is timed, when the window closes, and when its context ends. No lock is held
// across a call of the driver: who takes a timing is the only one to look at it.
enum { CAPTURE_MODE_RELAXED = 2 }; // CU_STREAM_CAPTURE_MODE_RELAXED

enum {
  TIMED_AT_FIRST = 8,
  TIMINGS = 256, // under way at most
  COLLECTED_TOGETHER = 16,
};

enum { TIMING_FREE, TIMING_TAKEN, TIMING_UNDER_WAY };

struct timing {
  _Atomic int state;
  struct list_row *row;        // of the list of launches; NULL: a launch of the window
  struct watched_row *watched; // of what is watched for
  uint64_t call, ordinal;      // its numbers, among calls and among launches that match
  uint64_t start, stop, stream, context;
  bool per_thread; // which default stream `stream` may mean
};

static ZERO_IN_CHILD struct timing timings[TIMINGS];

// The first launches, then the 16th, 32nd, ...: an event costs about as much as a launch.
static bool is_timed(uint64_t launch) { return launch <= TIMED_AT_FIRST || (launch & (launch - 1)) == 0; }

static ZERO_IN_CHILD _Atomic uint64_t launches_in_window;

bool is_timed_in_window(void) { return is_timed(atomic_fetch_add(&launches_in_window, 1) + 1); }

void forget_window_timings(void) { atomic_store(&launches_in_window, 0); }

// Asking for an event may spoil another thread's stream capture, unless the asking thread says that it knows
// what it does. Not yet seen on a GPU (GT-CAPTURE-MODE-EXCHANGE).
static void exchange_capture_mode(int *capture_mode) {
  ASK("cuThreadExchangeStreamCaptureMode", word(capture_mode));
}

static void end_timing(struct timing *timing) {
  if (timing->start != 0)
    ASK("cuEventDestroy_v2", timing->start);
  if (timing->stop != 0)
    ASK("cuEventDestroy_v2", timing->stop);
  timing->start = timing->stop = 0;
  atomic_store_explicit(&timing->state, TIMING_FREE, memory_order_release);
}

// Its events stay for the next one in this context: making them costs more than recording them.
static void rest_timing(struct timing *timing) {
  if (timing->watched == NULL)
    end_timing(timing);
  else
    atomic_store_explicit(&timing->state, TIMING_FREE, memory_order_release);
}

static bool take_timing(struct timing *timing, int from) {
  return atomic_compare_exchange_strong(&timing->state, &from, TIMING_TAKEN);
}

static void add_time(const struct timing *timing, uint64_t time_ns) {
  char text[64];
  if (timing->row != NULL)
    add_listed_time(timing->row, time_ns);
  if (timing->watched != NULL)
    launch_took(timing->watched, timing->ordinal, time_ns);
  if (timing->call == 0)
    return;
  int length = snprintf(text, sizeof text, "gpu_time_ns.%lu=%lu\n", timing->call, time_ns);
  write_process_text(text, (size_t)length);
}

// Takes over what has ended. A `context` that is about to end takes its events with it, ended or not.
void collect_timings(uint64_t context) {
  if (atomic_load(&captures_under_way) > 0)
    return;
  int capture_mode = CAPTURE_MODE_RELAXED;
  exchange_capture_mode(&capture_mode);
  for (struct timing *timing = timings; timing < timings + TIMINGS; timing++) {
    if (context != 0 && timing->context == context && take_timing(timing, TIMING_FREE)) {
      end_timing(timing);
      continue;
    }
    if (atomic_load_explicit(&timing->state, memory_order_relaxed) != TIMING_UNDER_WAY ||
        !take_timing(timing, TIMING_UNDER_WAY))
      continue;
    if (context != 0 && timing->context != context) {
      atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
      continue;
    }
    int result = ASK("cuEventQuery", timing->stop);
    float milliseconds = 0;
    if (result == SUCCESS &&
        ASK("cuEventElapsedTime", word(&milliseconds), timing->start, timing->stop) == SUCCESS)
      add_time(timing, (uint64_t)((double)milliseconds * 1e6 + 0.5));
    if (result == ERROR_NOT_READY && context == 0)
      atomic_store_explicit(&timing->state, TIMING_UNDER_WAY, memory_order_release);
    else if (context != 0)
      end_timing(timing);
    else
      rest_timing(timing);
  }
  exchange_capture_mode(&capture_mode);
}

static int record_event(const struct timing *timing, uint64_t event) {
  return timing->per_thread ? ASK("cuEventRecord_ptsz", event, timing->stream)
                            : ASK("cuEventRecord", event, timing->stream);
}

void begin_timing(struct call *call, struct list_row *row, struct watched_row *watched) {
  if (atomic_load(&captures_under_way) > 0)
    return;
  static atomic_uint begun; // a place to begin at, where all launches are timed
  unsigned place = watched != NULL ? atomic_fetch_add(&begun, 1) : 0;
  if (watched == NULL || place % COLLECTED_TOGETHER == 0)
    collect_timings(0);
  struct timing *timing = NULL;
  for (unsigned n = 0; n < TIMINGS && timing == NULL; n++)
    if (take_timing(&timings[(place + n) % TIMINGS], TIMING_FREE))
      timing = &timings[(place + n) % TIMINGS];
  if (timing == NULL)
    return;
  uint64_t context = current_context();
  if (timing->start != 0 && timing->context != context) {
    ASK("cuEventDestroy_v2", timing->start);
    ASK("cuEventDestroy_v2", timing->stop);
    timing->start = timing->stop = 0;
  }
  timing->row = row;
  timing->watched = watched;
  timing->call = row == NULL ? call->number : 0;
  timing->ordinal = call->ordinal;
  timing->context = context;
  timing->stream = stream_of_call(call);
  timing->per_thread = (call->record_function & PER_THREAD_BIT) != 0;
  bool has_events = timing->start != 0 || (ASK("cuEventCreate", word(&timing->start), 0) == SUCCESS &&
                                           ASK("cuEventCreate", word(&timing->stop), 0) == SUCCESS);
  if (has_events && record_event(timing, timing->start) == SUCCESS)
    call->timing = timing;
  else
    end_timing(timing);
}

void watch_time(struct call *call) {
  struct watched_row *row = call->timing == NULL ? row_of_launch(call) : NULL;
  if (row != NULL)
    begin_timing(call, NULL, row);
}

void launch_was_timed(struct call *call, int result) {
  if (result == SUCCESS && record_event(call->timing, call->timing->stop) == SUCCESS)
    atomic_store_explicit(&call->timing->state, TIMING_UNDER_WAY, memory_order_release);
  else
    end_timing(call->timing);
}

// ---- the list -----------------------------------------------------------------------------------

// Counts and GPU times by kernel, geometry and, where it is asked for, origin. Nothing is recorded and no
// memory is read. The rows are in a shared mapping of launches.<pid>.bin, so that they are there however the
// process ends. Rows and names are only ever added, under the lock; counting takes none. The layout is
// replay/raw/FORMAT.md; `replay/capture/launches.py` reads it.
enum {
  FILE_BYTES = 2 << 20,
  FORMAT_VERSION = 1,
  ROWS = 8000,
  ROW_BYTES = 128,
  NAMES_OFFSET = 64 + ROWS * ROW_BYTES,
  NAMES_BYTES = FILE_BYTES - NAMES_OFFSET,
  MAX_NAME_BYTES = 4096,
};

struct list_row {
  _Atomic uint64_t launches, timed, total_ns, shortest_ns, longest_ns;
  uint64_t first_ordinal; // of its first launch, among those of kernels of this name, from 1
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  uint32_t name_offset;
  uint32_t function; // Function.id
  uint32_t stack;    // that its launches came from, 0: not known
  uint8_t zero[36];
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
static ZERO_IN_CHILD size_t rows_used, names_used, name_bytes_used;
static ZERO_IN_CHILD struct handle_table listed; // rows by their keys
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
}
IN_CHILD(reset);

// ---- rows ---------------------------------------------------------------------------------------

enum { GEOMETRY_WORDS = 7, GEOMETRY_BYTES = 4 * GEOMETRY_WORDS }; // grid, block, shared memory

// After the kernel, or in the CUlaunchConfig: everywhere in this order.
static bool read_geometry(const struct call *call, uint32_t geometry[GEOMETRY_WORDS]) {
  const struct CUlaunchConfig *config = pointer_argument(call, 0);
  if (has_launch_config(call->function))
    return config != NULL && read_memory(geometry, &config->gridDimX, GEOMETRY_BYTES);
  for (int n = 0; n < GEOMETRY_WORDS; n++)
    geometry[n] = (uint32_t)call->arguments[1 + n];
  return true;
}

// Of 64 bits: no two of so few rows have the same.
static uint64_t key_of(const struct kernel *kernel, const uint32_t *geometry, uint32_t stack) {
  enum { ADDRESS_BITS = 47 };
  uint64_t value = (uint64_t)(uintptr_t)kernel ^ (uint64_t)stack << ADDRESS_BITS;
  for (int n = 0; n < GEOMETRY_WORDS; n++)
    value = (value ^ geometry[n]) * 0x9e3779b97f4a7c15u;
  return value;
}

// Kernels of several modules may have one name. NULL: no room.
static struct name *name_of(struct kernel *kernel) {
  uint32_t number = atomic_load_explicit(&kernel->list_name, memory_order_acquire);
  if (number != 0)
    return &names[number - 1];
  size_t length = strnlen(kernel->name, MAX_NAME_BYTES), n = 0;
  struct name *name = NULL;
  HOLD(lock);
  while (n < names_used && strcmp(names[n].text, kernel->name) != 0)
    n++;
  if (n < names_used) {
    name = &names[n];
  } else if (n < ROWS && name_bytes_used + length < NAMES_BYTES) {
    name = &names[names_used++];
    *name = (struct name){.text = kernel->name, .offset = (uint32_t)name_bytes_used};
    memcpy(mapped + NAMES_OFFSET + name_bytes_used, kernel->name, length); // a NUL follows
    name_bytes_used += length + 1;
  }
  if (name != NULL)
    atomic_store_explicit(&kernel->list_name, (uint32_t)n + 1, memory_order_release);
  return name;
}

static struct list_row *add_list_row(uint64_t key, const struct name *name, const uint32_t *geometry,
                                     const struct call *call, uint64_t ordinal) {
  HOLD(lock);
  const struct handle_row *known = find_handle(&listed, key);
  if (known != NULL)
    return known->object;
  if (rows_used == ROWS)
    return NULL;
  struct list_row *row = row_at(rows_used);
  row->first_ordinal = ordinal;
  row->name_offset = name->offset;
  memcpy(row->grid, geometry, GEOMETRY_BYTES); // grid, block and shared_bytes are one after another
  row->function = call->function->id;
  row->stack = call->origin;
  atomic_store(&row->shortest_ns, UINT64_MAX);
  if (!add_handle(&listed, key, row))
    return NULL;
  rows_used++;
  atomic_store_explicit(&row->whole, 1, memory_order_release);
  return row;
}

// ---- one launch ---------------------------------------------------------------------------------

// NULL: there is no room for it. `geometry` is NULL when it is not known.
static struct list_row *count_launch(struct kernel *kernel, const uint32_t *geometry,
                                     const struct call *call) {
  atomic_fetch_add(&header()->launches, 1);
  struct name *name = name_of(kernel);
  uint64_t ordinal = name != NULL ? atomic_fetch_add(&name->launches, 1) + 1 : 0;
  struct list_row *row = NULL;
  if (name != NULL && geometry != NULL) {
    uint64_t key = key_of(kernel, geometry, call->origin);
    const struct handle_row *known = find_handle(&listed, key);
    row = known != NULL ? known->object : add_list_row(key, name, geometry, call, ordinal);
  }
  if (row == NULL)
    atomic_fetch_add(&header()->unlisted, 1);
  return row;
}

static void count_in_graph(struct kernel *kernel, const uint32_t geometry[7], void *state) {
  struct list_row *row = count_launch(kernel, geometry, state);
  atomic_fetch_add(&header()->in_graphs, 1);
  if (row != NULL)
    atomic_fetch_add(&row->launches, 1);
}

void list_launches_of(struct call *call) {
  if (mapped == NULL || !is_any_launch(call->function) || (selection.bounded && !inside_selected_range()) ||
      (selection.source != NULL && !call->is_from_source))
    return;
  uint64_t launched = call->arguments[call->function->effect_terms[0].first];
  if (call->function->effect == EFFECT_GRAPH_LAUNCH) {
    visit_matching_kernels(launched, count_in_graph, call);
    return;
  }
  uint32_t geometry[GEOMETRY_WORDS];
  struct kernel *kernel = kernel_of_handle(launched);
  if (!kernel_matches(kernel))
    return;
  struct list_row *row = count_launch(kernel, read_geometry(call, geometry) ? geometry : NULL, call);
  if (row != NULL && is_timed(atomic_fetch_add(&row->launches, 1) + 1))
    begin_timing(call, row, NULL);
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
