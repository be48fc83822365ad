// How calls reach the wrappers, and how the wrappers reach the real driver.
//
// What is linked with libcuda.so.1, or loads it by that name, gets the stand-in (interposer/stand_in), whose
// functions are jumps to the wrappers. For a driver that was loaded by its path, and for other namespaces,
// dlsym answers with them. dlsym and cuGetProcAddress ask the real one first, so that a function which is not
// there stays not there; what they answer is remembered as the real function of the wrapper.
#define _GNU_SOURCE
#include "base/macros.h"
#include "base/thread.h"
#include "driver/real.h"
#include "entry/wrappers.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(void *) real_resolvers[2];

static bool capture_requested(void) {
  static atomic_int known; // 0 unknown, 1 no, 2 yes
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == 0) {
    const char *directory = getenv(ENV_DIRECTORY);
    answer = directory != NULL && directory[0] != '\0' ? 2 : 1;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 2;
}

// ---- cuGetProcAddress ---------------------------------------------------------------------------

int replay_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
int replay_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

struct resolution {
  const char *name;
  int version;
  int flags;               // 2: the per-thread default stream
  int slot;                // -1: no wrapper
  int version_of_resolver; // 1, 2: cuGetProcAddress itself; else 0
};

static const struct resolution resolutions[] = {
#define SWAP(name, version, flags, symbol) {#name, version, flags, SLOT_##symbol, 0},
#define LEAVE(name, version, flags) {#name, version, flags, -1, 0},
#define RESOLVER_cuGetProcAddress 1
#define RESOLVER_cuGetProcAddress_v2 2
#define RESOLVER(name, version, flags, symbol) {#name, version, flags, -1, RESOLVER_##symbol},
#include "generated/resolution.inc"
};
enum { RESOLUTION_COUNT = sizeof resolutions / sizeof *resolutions };

// The newest row of the name whose version is not above the one asked for; flag 2 prefers the per-thread
// twin.
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
  if (row == NULL)
    return real;
  if (row->version_of_resolver != 0) {
    void *none = NULL;
    atomic_compare_exchange_strong(&real_resolvers[row->version_of_resolver - 1], &none, real);
    return row->version_of_resolver == 1 ? (void *)replay_cuGetProcAddress
                                         : (void *)replay_cuGetProcAddress_v2;
  }
  if (row->slot < 0 || real == wrappers[row->slot])
    return real;
  remember_real((unsigned)row->slot, real);
  return wrappers[row->slot];
}

static void *real_resolver(int index) {
  void *found = atomic_load(&real_resolvers[index]);
  if (found == NULL) {
    found = driver_symbol(index == 0 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    if (found == NULL)
      return (void *)symbol_not_found;
    atomic_store(&real_resolvers[index], found);
  }
  return found;
}

static bool swaps(const char *symbol, void *const *pfn, int result) {
  return result == SUCCESS && symbol != NULL && symbol[0] != '\0' && pfn != NULL && *pfn != NULL &&
         capture_requested() && current_thread()->depth == 0;
}

// A driver newer than the table may have rows that the table does not know. What it gives for the newest
// release that the table knows is known; anything else may have another prototype, so it stays as it is.

EXPORT int replay_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags) {
  int (*real)(const char *, void **, int, uint64_t) = real_resolver(0);
  int result = real(symbol, pfn, version, flags);
  if (!swaps(symbol, pfn, result))
    return result;
  void *known = *pfn;
  if (version > NEWEST_RELEASE && real(symbol, &known, NEWEST_RELEASE, flags) != SUCCESS)
    known = NULL;
  if (known == *pfn)
    *pfn = swapped(symbol, version, flags, *pfn);
  return result;
}

EXPORT int replay_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags,
                                      int *status) {
  int (*real)(const char *, void **, int, uint64_t, int *) = real_resolver(1);
  int result = real(symbol, pfn, version, flags, status);
  if (!swaps(symbol, pfn, result))
    return result;
  void *known = *pfn;
  if (version > NEWEST_RELEASE && real(symbol, &known, NEWEST_RELEASE, flags, NULL) != SUCCESS)
    known = NULL;
  if (known == *pfn)
    *pfn = swapped(symbol, version, flags, *pfn);
  return result;
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
  int resolver = strcmp(name, "cuGetProcAddress_v2") == 0 ? 2 : strcmp(name, "cuGetProcAddress") == 0 ? 1 : 0;
  int slot = resolver == 0 ? slot_of_symbol(name) : -1;
  if (slot < 0 && resolver == 0)
    return ask_the_real_one;
  if (!capture_requested())
    return ask_the_real_one;
  // With RTLD_DEFAULT, what is visible to all; what only the caller sees is for the real dlsym to find.
  void *found = real_dlsym(handle, name);
  if (found == NULL)
    return ask_the_real_one;
  void *wrapper = resolver == 2   ? (void *)replay_cuGetProcAddress_v2
                  : resolver == 1 ? (void *)replay_cuGetProcAddress
                                  : wrappers[slot];
  if (is_of_stand_in(found))
    return (struct choice){1, wrapper};
  if (!is_of_driver(found))
    return ask_the_real_one;
  remember_driver(handle, found);
  if (resolver != 0) {
    void *none = NULL;
    atomic_compare_exchange_strong(&real_resolvers[resolver - 1], &none, found);
  } else {
    remember_real((unsigned)slot, found);
  }
  return (struct choice){1, wrapper};
}
