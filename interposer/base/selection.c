#include "base/selection.h"

#include "base/state.h"

#include <dlfcn.h>
#include <regex.h>

struct selection selection;
static char *nvtx_range, *nvtx_texts, *source; // of `selection`

static _Atomic(regex_t *) kernel_expression; // the former ones stay: a launch in another thread may use one
static char *(*demangle)(const char *, char *, size_t *, int *);
static MUTEX(loading);
static ZERO_IN_CHILD _Atomic uint32_t ranges_open;

// The environment may change, so it is copied when it is first read.
static char *text_of(const char *variable) {
  const char *text = getenv(variable);
  return text != NULL && text[0] != '\0' ? strdup(text) : NULL;
}

static uint64_t number_of(const char *variable) {
  const char *text = getenv(variable);
  return text != NULL ? strtoull(text, NULL, 10) : 0;
}

// NAME or NAME=NUMBER, with commas; `replay capture` has looked at them.
static struct watched read_watched(void) {
  static const char *const names[] = {TRIGGER_NAMES};
  struct watched when = {.ring = number_of(ENV_RING),
                         .max_snapshots = number_of(ENV_MAX_SNAPSHOTS),
                         .every_ns = number_of(ENV_EVERY),
                         .in_stream = number_of(ENV_RING_IN_STREAM) == 1,
                         .checks_on_device = number_of(ENV_NAN_ON_DEVICE) == 1,
                         .ring_room = number_of(ENV_RING_BYTES),
                         .ring_bandwidth = number_of(ENV_RING_BANDWIDTH),
                         .memory = number_of(ENV_RING_MEMORY)};
  for (const char *at = getenv(ENV_WHEN); at != NULL && *at != '\0';) {
    size_t length = strcspn(at, "=,");
    uint64_t value = at[length] == '=' ? strtoull(at + length + 1, NULL, 10) : 0;
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
      if (strlen(names[n]) == length && memcmp(names[n], at, length) == 0)
        when.triggers |= 1u << n;
    if (strncmp(at, "hang=", 5) == 0)
      when.hang_ns = value;
    else if (strncmp(at, "time=", 5) == 0)
      when.time_ns = value;
    else if (strncmp(at, "slower=", 7) == 0)
      when.slower = value;
    else if (strncmp(at, "signal=", 7) == 0)
      when.signal = (int)value;
    at += strcspn(at, ",");
    at += *at == ',';
  }
  return when;
}

bool read_selection(void) {
  const char *kernel = getenv(ENV_KERNEL), *launch = getenv(ENV_LAUNCH), *memory = getenv(ENV_MEMORY);
  struct selection chosen = {.all = number_of(ENV_ALL) == 1,
                             .list = number_of(ENV_LIST) == 1,
                             .profiler = number_of(ENV_PROFILER) == 1,
                             .first_launch = 1,
                             .last_launch = UINT64_MAX,
                             .every = number_of(ENV_EACH),
                             .max_bytes = number_of(ENV_MAX_BYTES),
                             .max_launches = number_of(ENV_MAX_LAUNCHES),
                             .when = read_watched()};
  if (memory != NULL) // params, live or reachable
    chosen.reach = memory[0] == 'p' ? REACH_PARAMETERS : memory[0] == 'l' ? REACH_LIVE : REACH_REACHABLE;
  uint64_t ring_bytes = number_of(ENV_RING_BYTES); // of each launch
  if (ring_bytes != 0 && (chosen.max_bytes == 0 || ring_bytes < chosen.max_bytes))
    chosen.max_bytes = ring_bytes;
  if (launch != NULL && launch[0] != '\0') {
    char *end;
    chosen.first_launch = chosen.last_launch = strtoull(launch, &end, 10);
    if (*end == '-')
      chosen.last_launch = strtoull(end + 1, NULL, 10);
  }
  if (nvtx_range == NULL)
    nvtx_range = text_of(ENV_NVTX);
  if (nvtx_texts == NULL)
    nvtx_texts = text_of(ENV_NVTX_TEXTS);
  if (source == NULL)
    source = text_of(ENV_SOURCE);
  chosen.nvtx_range = nvtx_range;
  chosen.nvtx_texts = nvtx_texts;
  chosen.source = source;
  const char *line = NULL;
  chosen.python_stacks = source != NULL || number_of(ENV_PYTHON_STACKS) == 1;
  chosen.nvtx_stacks = number_of(ENV_NVTX_STACKS) == 1;
  if (source != NULL) {
    line = strrchr(source, ':'); // `replay capture` sees to it that lines follow
    chosen.source_file_bytes = line != NULL ? (size_t)(line - source) : strlen(source);
  }
  if (line != NULL) {
    char *end;
    chosen.first_line = chosen.last_line = (uint32_t)strtoul(line + 1, &end, 10);
    if (*end == '-')
      chosen.last_line = (uint32_t)strtoul(end + 1, NULL, 10);
  }
  chosen.bounded = chosen.profiler || chosen.nvtx_range != NULL;
  chosen.whole_range = chosen.bounded && !chosen.list && kernel == NULL && launch == NULL;
  if (kernel != NULL && kernel[0] != '\0') {
    regex_t *expression = malloc(sizeof *expression);
    if (expression == NULL || regcomp(expression, kernel, REG_EXTENDED | REG_NOSUB) != 0)
      return false; // `replay capture` compiles it first and says what is wrong
    atomic_store(&kernel_expression, expression);
    chosen.has_kernel = true;
  }
  selection = chosen; // at once: a launch in another thread may be looking at it
  return true;
}

// Names of C++ kernels match as the linker knows them or as people write them.
bool name_is_selected(const char *name) {
  static bool tried;
  const regex_t *expression = atomic_load(&kernel_expression);
  if (!selection.has_kernel)
    return !selection.all && !selection.whole_range;
  if (regexec(expression, name, 0, NULL, 0) == 0)
    return true;
  if (name[0] != '_' || name[1] != 'Z')
    return false;
  pthread_mutex_lock(&loading);
  if (!tried) {
    tried = true;
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, "__cxa_demangle") : NULL;
    memcpy(&demangle, &found, sizeof found);
  }
  pthread_mutex_unlock(&loading);
  int status = -1;
  char *readable = demangle != NULL ? demangle(name, NULL, NULL, &status) : NULL;
  bool matches = readable != NULL && status == 0 && regexec(expression, readable, 0, NULL, 0) == 0;
  free(readable);
  return matches;
}

bool ordinal_is_selected(uint64_t ordinal) {
  if (selection.all)
    return true;
  return selection.first_launch <= ordinal && ordinal <= selection.last_launch &&
         (selection.every <= 1 || (ordinal - selection.first_launch) % selection.every == 0);
}

bool launch_is_outside(void) {
  if (selection.list || selection.when.triggers != 0 || selection.bounded || selection.source != NULL ||
      atomic_load(&captures_under_way) > 0)
    return false;
  uint64_t before = atomic_load(&perturbation.launches_matched);
  do { // a note is written of every launch whose number is a power of two
    if ((before & (before + 1)) == 0 || ordinal_is_selected(before + 1))
      return false;
  } while (!atomic_compare_exchange_weak(&perturbation.launches_matched, &before, before + 1));
  atomic_fetch_add(&perturbation.outside_selection, 1);
  return true;
}

void count_after_end(void) {
  atomic_fetch_add_explicit(&perturbation.launches_matched, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&perturbation.after_end, 1, memory_order_relaxed);
}

bool inside_selected_range(void) { return atomic_load(&ranges_open) > 0; }

bool count_range_begin(void) { return atomic_fetch_add(&ranges_open, 1) == 0; }

bool count_range_end(void) {
  uint32_t open = atomic_load(&ranges_open);
  while (open > 0 && !atomic_compare_exchange_weak(&ranges_open, &open, open - 1)) {
  }
  return open == 1;
}
