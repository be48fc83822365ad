// Which mappings share physical memory (cuMemCreate, cuMemMap): they are read together, since what is written
// at one address is there at the others.
#include "memory/physical.h"

#include "base/fork.h"
#include "memory/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LOCATION_DEVICE = 1 }; // CUmemLocationType

// A handle value may be given out again after cuMemRelease, while mappings keep the memory: each creation has
// a number of its own.
struct physical {
  uint64_t handle, number;
  bool on_host;
};

static MUTEX(lock);
static struct physical *known;
static size_t known_count, known_capacity;
static uint64_t last_number;

static struct physical *find(uint64_t handle) {
  for (size_t n = known_count; n > 0; n--)
    if (known[n - 1].handle == handle)
      return &known[n - 1];
  return NULL;
}

static void set_number(uint64_t handle, uint64_t number, bool on_host) {
  struct physical *entry = find(handle);
  if (entry == NULL && known_count == known_capacity) {
    size_t capacity = known_capacity == 0 ? 64 : known_capacity * 2;
    struct physical *grown = realloc(known, capacity * sizeof *grown);
    if (grown == NULL)
      return;
    known = grown;
    known_capacity = capacity;
  }
  if (entry == NULL)
    entry = &known[known_count++];
  *entry = (struct physical){handle, number, on_host};
}

static bool makes_physical(unsigned id) {
  return id == ID_cuMemCreate || id == ID_cuMemImportFromShareableHandle ||
         id == ID_cuMemRetainAllocationHandle;
}

void note_physical(const struct call *call) {
  const uint64_t *arguments = call->arguments;
  uint64_t handle;
  struct range range;
  if (!makes_physical(call->function->id) || arguments[0] == 0)
    return;
  switch (call->function->id) {
  case ID_cuMemCreate:
  case ID_cuMemImportFromShareableHandle: {
    uint32_t location = LOCATION_DEVICE; // CUmemAllocationProp.location.type
    memcpy(&handle, (const void *)(uintptr_t)arguments[0], 8);
    if (call->function->id == ID_cuMemCreate && arguments[2] != 0)
      memcpy(&location, (const uint8_t *)(uintptr_t)arguments[2] + 8, 4);
    pthread_mutex_lock(&lock);
    set_number(handle, ++last_number, location != LOCATION_DEVICE);
    pthread_mutex_unlock(&lock);
    break;
  }
  case ID_cuMemRetainAllocationHandle:
    memcpy(&handle, (const void *)(uintptr_t)arguments[0], 8);
    if (memory_find(arguments[1], &range) && range.physical != 0) {
      pthread_mutex_lock(&lock);
      set_number(handle, range.physical, range.host_visible);
      pthread_mutex_unlock(&lock);
    }
    break;
  default:
    break;
  }
}

uint64_t physical_number(uint64_t handle, bool *on_host) {
  pthread_mutex_lock(&lock);
  const struct physical *entry = find(handle);
  uint64_t number = entry != NULL ? entry->number : 0;
  *on_host = entry != NULL && entry->on_host;
  pthread_mutex_unlock(&lock);
  return number;
}

static void reset(void) { known_count = 0; }
IN_CHILD(reset);
