// How calls reach the wrappers, and how the wrappers reach the real driver.
//
// What is linked with libcuda.so.1, or loads it by that name, gets the stand-in (interposer/stand_in), whose
// functions are jumps to the wrappers. For a driver that was loaded by its path, and for other namespaces,
// dlsym answers with them. dlsym and cuGetProcAddress ask the real one first, so that a function which is not
// there stays not there; what they answer is remembered as the real function of the wrapper.
#include "base/selection.h"
#include "base/state.h"
#include "driver/real.h"
#include "entry/wrappers.h"

#include <dlfcn.h>

static bool capture_requested(void) {
  static atomic_int known; // 0 unknown, 1 no, 2 yes
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == 0) {
    answer = capture_directory() != NULL ? 2 : 1;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 2;
}

// ---- cuGetProcAddress ---------------------------------------------------------------------------

struct resolution {
  const char *name;
  int version;
  int flags; // 2: the per-thread default stream
  int slot;  // -1: no wrapper
};

static const struct resolution resolutions[] = {
#define SWAP(name, version, flags, symbol) {#name, version, flags, SLOT_##symbol},
#define LEAVE(name, version, flags) {#name, version, flags, -1},
#include "generated/resolution.inc"
};
enum { RESOLUTION_COUNT = sizeof resolutions / sizeof *resolutions };

// The newest row of the name whose version is not above the one asked for; flag 2 prefers a twin.
static const struct resolution *find_resolution(const char *name, int version, uint64_t flags) {
  int low = 0, high = RESOLUTION_COUNT;
  while (low < high) {
    int middle = (low + high) / 2;
    if (strcmp(resolutions[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  const struct resolution *best = NULL;
  for (; low < RESOLUTION_COUNT && strcmp(resolutions[low].name, name) == 0; low++) {
    const struct resolution *row = &resolutions[low];
    if (row->version > version || (row->flags == 2 && !(flags & 2)))
      continue;
    if (best == NULL || row->flags > best->flags ||
        (row->flags == best->flags && row->version > best->version))
      best = row;
  }
  return best;
}

static void *swapped(const char *name, int version, uint64_t flags, void *real) {
  const struct resolution *row = find_resolution(name, version, flags);
  if (row == NULL || row->slot < 0 || real == wrappers[row->slot])
    return real;
  remember_real((unsigned)row->slot, real);
  return wrappers[row->slot];
}

static bool swaps(const char *symbol, void *const *pfn, int result) {
  return result == SUCCESS && symbol != NULL && symbol[0] != '\0' && pfn != NULL && *pfn != NULL &&
         capture_requested() && current_thread()->depth == 0;
}

// A driver older than the version that is asked for gives the newest that it has. A driver newer than the
// table may have rows that the table does not know: what it gives for the newest release that the table knows
// is known; anything else may have another prototype, so it stays as it is.
static int resolve(unsigned slot, const char *symbol, void **pfn, int version, uint64_t flags, int *status) {
  // The first version has no `status`, and does not look at what is in its place.
  int (*real)(const char *, void **, int, uint64_t, int *) = real_function(slot);
  int result = real(symbol, pfn, version, flags, status);
  if (!swaps(symbol, pfn, result))
    return result;
  int newest = driver_version();
  if (newest > 0 && version > newest)
    version = newest;
  void *known = *pfn;
  if (version > NEWEST_RELEASE && real(symbol, &known, NEWEST_RELEASE, flags, NULL) != SUCCESS)
    known = NULL;
  if (known == *pfn)
    *pfn = swapped(symbol, version, flags, *pfn);
  return result;
}

EXPORT int replay_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags) {
  return resolve(SLOT_cuGetProcAddress, symbol, pfn, version, flags, NULL);
}

EXPORT int replay_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags,
                                      int *status) {
  return resolve(SLOT_cuGetProcAddress_v2, symbol, pfn, version, flags, status);
}

// ---- dlsym --------------------------------------------------------------------------------------

struct choice {
  uint64_t answered; // 0: dlsym.S jumps to the real dlsym
  void *value;
};

__attribute__((visibility("hidden"))) struct choice choose_symbol(void *handle, const char *name) {
  const struct choice ask_the_real_one = {0, NULL};
  if (UNLIKELY(real_dlsym == NULL))
    find_real_dlsym();
  if (name == NULL || name[0] != 'c' || name[1] != 'u' || handle == RTLD_NEXT)
    return ask_the_real_one;
  int slot = slot_of_symbol(name);
  if (slot < 0 || !capture_requested())
    return ask_the_real_one;
  // With RTLD_DEFAULT, what is visible to all; what only the caller sees is for the real dlsym to find.
  void *found = real_dlsym(handle, name);
  if (found == NULL)
    return ask_the_real_one;
  if (!is_of_stand_in(found)) {
    if (!is_of_driver(found))
      return ask_the_real_one;
    remember_driver(handle, found);
    remember_real((unsigned)slot, found);
  }
  return (struct choice){1, wrappers[slot]};
}
