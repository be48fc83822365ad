#include "base/selection.h"

#include "base/state.h"

#include <dlfcn.h>
#include <regex.h>

struct selection selection;
static char *nvtx_range; // selection.nvtx_range

static regex_t kernel_expression;
static char *(*demangle)(const char *, char *, size_t *, int *);
static MUTEX(loading);
static ZERO_IN_CHILD _Atomic uint32_t ranges_open;

static uint64_t number_of(const char *variable) {
  const char *text = getenv(variable);
  return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static bool is_one(const char *variable) {
  const char *text = getenv(variable);
  return text != NULL && strcmp(text, "1") == 0;
}

bool read_selection(void) {
  static bool compiled;
  const char *kernel = getenv(ENV_KERNEL), *launch = getenv(ENV_LAUNCH), *memory = getenv(ENV_MEMORY);
  selection = (struct selection){.all = is_one(ENV_ALL),
                                 .list = is_one(ENV_LIST),
                                 .profiler = is_one(ENV_PROFILER),
                                 .first_launch = 1,
                                 .last_launch = UINT64_MAX,
                                 .every = number_of(ENV_EACH),
                                 .max_bytes = number_of(ENV_MAX_BYTES),
                                 .max_launches = number_of(ENV_MAX_LAUNCHES)};
  if (memory != NULL && strcmp(memory, "params") == 0)
    selection.reach = REACH_PARAMETERS;
  else if (memory != NULL && strcmp(memory, "live") == 0)
    selection.reach = REACH_LIVE;
  if (launch != NULL && launch[0] != '\0') {
    char *end;
    selection.first_launch = selection.last_launch = strtoull(launch, &end, 10);
    if (*end == '-')
      selection.last_launch = strtoull(end + 1, NULL, 10);
  }
  const char *range = getenv(ENV_NVTX);
  free(nvtx_range);
  nvtx_range = range != NULL && range[0] != '\0' ? strdup(range) : NULL; // the environment may change
  selection.nvtx_range = nvtx_range;
  selection.bounded = selection.profiler || selection.nvtx_range != NULL;
  selection.whole_range = selection.bounded && !selection.list && kernel == NULL && launch == NULL;
  if (kernel != NULL && kernel[0] != '\0') {
    if (!compiled && regcomp(&kernel_expression, kernel, REG_EXTENDED | REG_NOSUB) != 0)
      return false; // `replay capture` compiles it first and says what is wrong
    compiled = true;
    selection.has_kernel = true;
  }
  return true;
}

// Names of C++ kernels match as the linker knows them or as people write them.
bool name_is_selected(const char *name) {
  static bool tried;
  if (!selection.has_kernel)
    return !selection.all && !selection.whole_range;
  if (regexec(&kernel_expression, name, 0, NULL, 0) == 0)
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
  bool matches = readable != NULL && status == 0 && regexec(&kernel_expression, readable, 0, NULL, 0) == 0;
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
  if (selection.list || selection.bounded || atomic_load(&captures_under_way) > 0)
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
