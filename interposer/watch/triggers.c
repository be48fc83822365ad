// What is watched for (`replay capture --when`): watch, hit, record, keep or drop.
//
// With a ring every launch that matches is a window, recorded as any other: its inputs are on file before it
// runs. When it has ended it is judged. A window that is kept has a note that says why; of the others only
// the last ones stay, and what they hold of the file is used again (contents/ring.c). Without a ring launches
// are timed, and one that was slow has the next ones of its kernel and geometry recorded.
#include "base/handles.h"
#include "base/selection.h"
#include "contents/contents.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "generated/structs.h"
#include "objects/objects.h"
#include "record/writer.h"
#include "watch/watch.h"

#include <signal.h>
#include <stdio.h>

enum {
  SAMPLES = 15,          // that a median is of
  FEWEST_SAMPLES = 5,    // before which nothing is slow
  ARMED_LAUNCHES = 1000, // that are recorded after a slow one, unless one is slow again
  GEOMETRY_WORDS = 7,
  MOST_ROWS = 8000,
};
static const uint64_t shortest_pause_ns = 100000000, longest_pause_ns = 60000000000;

struct watched_row { // a kernel with one geometry
  uint64_t recent[SAMPLES];
  uint64_t count;                    // of times
  uint32_t armed;                    // launches that are still recorded
  uint64_t slow, slow_ns, median_ns; // the last launch that was slow, 0: none
  uint64_t slow_before;              // the one that armed it
};

static MUTEX(lock);
static ZERO_IN_CHILD struct handle_table rows;
static ZERO_IN_CHILD atomic_bool has_ended;
static ZERO_IN_CHILD _Atomic uint64_t hits;
static ZERO_IN_CHILD uint64_t pause_ns;
static ZERO_IN_CHILD bool is_to_be_told;
static ZERO_IN_CHILD _Atomic uint64_t paused_until_ns;
static ZERO_IN_CHILD _Atomic uint32_t answered;     // requests of `replay trigger`
static ZERO_IN_CHILD volatile sig_atomic_t signals; // that have come
static ZERO_IN_CHILD _Atomic uint32_t signals_answered;
static ZERO_IN_CHILD _Atomic uint64_t unwatched_paused;
static ZERO_IN_CHILD _Atomic uint64_t unwatched_types; // launches of which --when nan knows no types
static ZERO_IN_CHILD _Atomic uint64_t unwatched_held;  // whose memory held such numbers before
static ZERO_IN_CHILD uint64_t unwatched_shared;        // that came in the window of another thread's launch
static ZERO_IN_CHILD _Atomic uint64_t row_count, unwatched_rows;
ZERO_IN_CHILD struct flown flown;
static ZERO_IN_CHILD uint64_t recorded_before;
static ZERO_IN_CHILD uint64_t too_small_bytes, too_small_launch;

static bool watches(uint32_t triggers) { return (selection.when.triggers & triggers) != 0; }

bool watching_has_ended(void) { return atomic_load_explicit(&has_ended, memory_order_relaxed); }

// ---- times --------------------------------------------------------------------------------------

static uint64_t key_of(const struct call *call) {
  uint32_t geometry[GEOMETRY_WORDS] = {0};
  const struct CUlaunchConfig *config = pointer_argument(call, 0);
  if (!has_launch_config(call->function))
    for (int n = 0; n < GEOMETRY_WORDS; n++)
      geometry[n] = (uint32_t)call->arguments[1 + n];
  else if (config != NULL)
    read_memory(geometry, &config->gridDimX, sizeof geometry);
  uint64_t key = (uint64_t)(uintptr_t)call->kernel;
  for (int n = 0; n < GEOMETRY_WORDS; n++)
    key = (key ^ geometry[n]) * 0x9e3779b97f4a7c15u;
  return key;
}

struct watched_row *row_of_launch(struct call *call) {
  if (LIKELY(!watches(WHEN_SLOWER | WHEN_TIME)) || call->kernel == NULL || call->ordinal == 0)
    return NULL;
  uint64_t key = key_of(call);
  struct handle_row *found = find_handle(&rows, key);
  if (found != NULL)
    return found->object;
  HOLD(lock);
  found = find_handle(&rows, key);
  if (found != NULL)
    return found->object;
  struct watched_row *row = atomic_load(&row_count) < MOST_ROWS ? room_for(sizeof *row) : NULL;
  if (row != NULL && !add_handle(&rows, key, row)) {
    free(row);
    row = NULL;
  }
  atomic_fetch_add(row != NULL ? &row_count : &unwatched_rows, 1);
  return row;
}

static uint64_t median_of(const struct watched_row *row) {
  uint64_t sorted[SAMPLES];
  size_t count = row->count < SAMPLES ? row->count : SAMPLES;
  for (size_t n = 0; n < count; n++) {
    size_t at = n;
    for (; at > 0 && sorted[at - 1] > row->recent[n]; at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = row->recent[n];
  }
  return count > 0 ? sorted[count / 2] : 0;
}

void launch_took(struct watched_row *row, uint64_t ordinal, uint64_t time_ns) {
  HOLD(lock);
  uint64_t median = median_of(row);
  bool slower = watches(WHEN_SLOWER) && row->count >= FEWEST_SAMPLES &&
                time_ns * 1000 >= median * selection.when.slower && time_ns > median;
  row->recent[row->count++ % SAMPLES] = time_ns;
  if (!slower && !(watches(WHEN_TIME) && time_ns > selection.when.time_ns))
    return;
  row->slow_before = row->armed > 0 ? row->slow_before : ordinal;
  row->slow = ordinal;
  row->slow_ns = time_ns;
  row->median_ns = slower ? median : 0;
  if ((selection.when.ring == 0 || selection.when.in_stream) && row->armed == 0)
    row->armed = ARMED_LAUNCHES;
}

// ---- asked for by people ------------------------------------------------------------------------

static void take_signal(int number) {
  (void)number;
  signals++;
}

void begin_watching(void) {
  struct sigaction before, taken = {.sa_handler = take_signal, .sa_flags = SA_RESTART};
  int number = selection.when.signal;
  if (number != 0 && sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
    sigaction(number, &taken, NULL);
}

static bool is_asked_for(void) {
  return watches(WHEN_SIGNAL) && ((uint32_t)signals != signals_answered || times_asked() != answered);
}

// ---- which launches are recorded ----------------------------------------------------------------

static void tell_now(void) {
  struct watch_counts counts = {.state = watching_has_ended() ? 2 : 1,
                                .hits = (uint32_t)atomic_load(&hits),
                                .launches = atomic_load(&perturbation.launches_matched),
                                .paused = atomic_load(&unwatched_paused),
                                .in_stream = atomic_load(&flown.launches),
                                .waited = atomic_load(&flown.waited),
                                .beyond_bandwidth = atomic_load(&flown.beyond_bandwidth),
                                .image_bytes = atomic_load(&flown.image_bytes),
                                .memory_bytes = atomic_load(&rooms.taken),
                                .beyond_memory = atomic_load(&rooms.refused),
                                .on_device = atomic_load(&flown.scanned)};
  tell_counts(&counts);
}

// For who looks at a program that runs: what was counted, now and then.
static void tell_now_and_then(void) {
  static const uint64_t interval_ns = 100000000;
  static ZERO_IN_CHILD _Atomic uint64_t told_ns;
  uint64_t now = now_ns(), told = atomic_load_explicit(&told_ns, memory_order_relaxed);
  if (now - told > interval_ns && atomic_compare_exchange_strong(&told_ns, &told, now))
    tell_now();
}

bool launches_are_paused(void) {
  uint64_t until = atomic_load_explicit(&paused_until_ns, memory_order_relaxed);
  return until != 0 && now_ns() < until;
}

enum launch_use use_of_launch(struct call *call) {
  tell_now_and_then();
  if (watching_has_ended())
    return LAUNCH_IS_LEFT;
  if (launches_are_paused()) {
    atomic_fetch_add(&unwatched_paused, 1);
    return LAUNCH_IN_A_PAUSE;
  }
  if (is_asked_for())
    return LAUNCH_IS_RECORDED;
  struct watched_row *row = row_of_launch(call);
  if (row == NULL || row->armed == 0)
    return selection.when.ring > 0 ? LAUNCH_IS_IN_THE_RING : LAUNCH_IS_LEFT;
  HOLD(lock);
  row->armed -= row->armed > 0;
  return LAUNCH_IS_RECORDED;
}

// ---- judging ------------------------------------------------------------------------------------

bool made_nonfinite(struct kernel *kernel, const uint8_t *packed, uint32_t packed_bytes,
                    nonfinite_at *at_address, const void *state, char *words, size_t room) {
  enum { NAN_BITS = 0x0f, NAMES = 4 };
  static const char *const names[NAMES] = {"f16", "bf16", "f32", "f64"};
  uint32_t bytes = 0;
  const char *types = kernel != NULL ? element_types_of(kernel, &bytes) : NULL;
  if (bytes == 0 || packed == NULL) {
    atomic_fetch_add(&unwatched_types, 1);
    return false;
  }
  uint8_t held = 0, made = 0;
  unsigned long made_type = 0, made_offset = 0;
  for (uint32_t at = 0; at < bytes; at += (uint32_t)strlen(types + at) + 1) {
    char *rest;
    unsigned long offset = strtoul(types + at, &rest, 10), type = strtoul(rest, NULL, 10);
    uint8_t had, appeared;
    if (type >= NAMES || packed_bytes < sizeof(uint64_t) || offset > packed_bytes - sizeof(uint64_t) ||
        !at_address(word_at(packed, offset), (unsigned)type, &had, &appeared, state))
      continue;
    held |= had;
    if ((made & NAN_BITS) == 0 && (appeared & (made == 0 ? UINT8_MAX : NAN_BITS)) != 0) {
      made_type = type;
      made_offset = offset;
    }
    made |= appeared;
  }
  bool nan = (made & NAN_BITS) != 0 && (held & NAN_BITS) == 0;
  bool infinity = (made & ~NAN_BITS) != 0 && held == 0;
  if (made != 0 && !nan && !infinity)
    atomic_fetch_add(&unwatched_held, 1);
  if (nan || infinity)
    snprintf(words, room, "%s of type %s in the memory of the parameter at byte %lu",
             nan ? "a NaN" : "an infinity", names[made_type], made_offset);
  return nan || infinity;
}

// Why the window is kept, as words; its trigger is the result, NULL: it is not kept.
static const char *reason_of(const struct call *launch, uint64_t launches, bool owns_gate, char *words,
                             size_t room) {
  int error = device_error_met();
  struct watched_row *row = launch != NULL ? row_of_launch((struct call *)(uintptr_t)launch) : NULL;
  enum { ASSERTION_FAILED = 710 };
  words[0] = '\0';
  if (device_failed_before()) // of a launch that was not recorded
    return NULL;
  if (error != 0 && (watches(WHEN_ERROR) || (watches(WHEN_ASSERT) && error == ASSERTION_FAILED))) {
    int length = snprintf(words, room, "the device reports error %d", error);
    if (launches > 1)
      snprintf(words + length, room - (size_t)length, "; it is one of %lu launches of several threads",
               launches);
    return error == ASSERTION_FAILED ? "assert" : "error";
  }
  if (launch != NULL && launch->result != SUCCESS && watches(WHEN_ERROR)) {
    snprintf(words, room, "the driver answered %d", launch->result);
    return "error";
  }
  if (watches(WHEN_HANG) && device_stayed_busy()) {
    snprintf(words, room, "it has not ended after %.3g s", (double)selection.when.hang_ns / 1e9);
    return "hang";
  }
  if (watches(WHEN_NAN) && owns_gate && launch != NULL && launch->result == SUCCESS && error == 0 &&
      made_nonfinite(launch->kernel, launch->packed, launch->packed_bytes, nonfinite_of, NULL, words, room))
    return "nan";
  if (row != NULL && row->slow == launch->ordinal) {
    int length = snprintf(words, room, "it took %.4g us", (double)row->slow_ns / 1e3);
    if (row->median_ns != 0)
      length += snprintf(words + length, room - (size_t)length, " where the median is %.4g us",
                         (double)row->median_ns / 1e3);
    if (row->slow_before != row->slow)
      snprintf(words + length, room - (size_t)length, "; launch %lu was slow first", row->slow_before);
    return row->median_ns != 0 ? "slower" : "time";
  }
  if (is_asked_for()) {
    snprintf(words, room, "it was asked for");
    return "signal";
  }
  return NULL;
}

// The more often something happens, the longer nothing is watched for after it.
static void pause_after_hit(void) {
  uint64_t now = now_ns(), until = atomic_load(&paused_until_ns);
  bool again_at_once = until != 0 && now < until + pause_ns;
  pause_ns = again_at_once ? pause_ns * 2 : shortest_pause_ns;
  pause_ns = pause_ns > longest_pause_ns ? longest_pause_ns : pause_ns;
  uint64_t pause = pause_ns > selection.when.every_ns ? pause_ns : selection.when.every_ns;
  atomic_store(&paused_until_ns, now + pause);
}

void write_hit(const char *trigger, uint64_t ordinal, const char *kernel, const char *words, uint64_t call) {
  write_note(NOTE_TRIGGER, 0, call, "%s launch %lu of %s: %s", trigger, ordinal, kernel, words);
  signals_answered = (uint32_t)signals;
  answered = times_asked();
  windows_are_kept();
  pause_after_hit();
  // After an error or a hang this process gets no further.
  if (atomic_fetch_add(&hits, 1) + 1 >= selection.when.max_snapshots || device_error_met() != 0 ||
      device_stayed_busy() || strcmp(trigger, "hang") == 0)
    atomic_store(&has_ended, true);
  is_to_be_told = true;
}

void tell_hang(uint64_t since_ns) { tell_recording(since_ns); }

void tell_hit(void) { // its window is closed
  if (is_to_be_told)
    tell_now();
  is_to_be_told = false;
}

void judge_window(const struct call *launch, uint64_t call, bool owns_gate, uint64_t recorded) {
  char words[200];
  // Of launches of other threads in this window only what ends a context is told.
  uint64_t launches = launch == NULL || launch->kernel == NULL ? 1 : recorded - recorded_before;
  recorded_before = recorded;
  unwatched_shared += launches > 1 ? launches - 1 : !owns_gate && watches(WHEN_NAN);
  const char *trigger = reason_of(launch, launches, owns_gate, words, sizeof words);
  uint64_t ordinal = launch != NULL ? launch->ordinal : 0, left_out = bytes_left_out();
  if (left_out > too_small_bytes) {
    too_small_bytes = left_out;
    too_small_launch = ordinal;
  }
  tell_recording(0);
  if (device_failed_before())
    atomic_store(&has_ended, true);
  if (trigger == NULL)
    return;
  write_hit(trigger, ordinal, launch != NULL && launch->kernel != NULL ? launch->kernel->name : "a graph",
            words, call);
  struct watched_row *row = launch != NULL ? row_of_launch((struct call *)(uintptr_t)launch) : NULL;
  if (row != NULL)
    row->armed = 0;
}

static size_t describe_flights(uint64_t not_judged, char *text, size_t room) {
  if (!selection.when.in_stream)
    return 0;
  return (size_t)snprintf(text, room,
                          "watched.in_stream=%lu\nwatched.waited=%lu\nwatched.beyond_bandwidth=%lu\n"
                          "watched.image_bytes=%lu\nwatched.not_judged=%lu\nwatched.on_device=%lu\n",
                          atomic_load(&flown.launches), atomic_load(&flown.waited),
                          atomic_load(&flown.beyond_bandwidth), atomic_load(&flown.image_bytes), not_judged,
                          atomic_load(&flown.scanned));
}

void end_watching(uint64_t not_judged) {
  enum { FIRST_FAULT = 700 }; // of the errors of kernels
  char text[900];
  int length = snprintf(text, sizeof text,
                        "watched.paused=%lu\nwatched.hits=%lu\nwatched.without_types=%lu\nwatched.held=%lu\n"
                        "watched.shared=%lu\nwatched.rows=%lu\nwatched.busy_elsewhere=%d\n"
                        "watched.memory_bytes=%lu\nwatched.beyond_memory=%lu\n",
                        atomic_load(&unwatched_paused), atomic_load(&hits), atomic_load(&unwatched_types),
                        atomic_load(&unwatched_held), unwatched_shared, atomic_load(&unwatched_rows),
                        device_failed_before() && device_stayed_busy(), atomic_load(&rooms.taken),
                        atomic_load(&rooms.refused));
  if (too_small_bytes > 0)
    length += snprintf(text + length, sizeof text - (size_t)length, "watched.too_small=%lu %lu\n",
                       too_small_launch, too_small_bytes);
  length += (int)describe_flights(not_judged, text + length, sizeof text - (size_t)length);
  int error = watches(WHEN_ERROR) && hits == 0 && current_context() != 0 ? ASK("cuStreamQuery", 1) : 0;
  if (error >= FIRST_FAULT && error != ERROR_CONTEXT_IS_DESTROYED)
    length += snprintf(text + length, sizeof text - (size_t)length, "watched.error_elsewhere=%d\n", error);
  write_process_text(text, (size_t)length);
}
