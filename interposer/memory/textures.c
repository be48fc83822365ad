// What kernels reach by a handle instead of an address: texture and surface objects, whose handles are in
// parameters and in memory, and texture and surface references, which any kernel of their module may use.
#include "memory/textures.h"

#include "base/fork.h"
#include "driver/ask.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct object {
  uint64_t handle, target, context; // target: an address of a range, arrays included
  uint8_t kind;                     // enum object_kind
};

// Handles may be as small as 1: words between the lowest and the highest are looked up.
_Atomic uint64_t lowest_object, object_span;
atomic_uint bound_references;

static MUTEX(lock);
static struct object *objects; // sorted by handle
static size_t object_count, object_capacity;

static size_t position_of(uint64_t handle) {
  size_t low = 0, high = object_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (objects[middle].handle < handle)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_reference(const struct object *object) { return object->kind == OBJECT_REFERENCE; }

static void publish(void) {
  uint64_t lowest = 0, highest = 0;
  unsigned references = 0;
  for (size_t n = 0; n < object_count; n++) {
    if (is_reference(&objects[n])) {
      references++;
      continue;
    }
    lowest = lowest == 0 ? objects[n].handle : lowest;
    highest = objects[n].handle;
  }
  atomic_store(&object_span, 0);
  atomic_store(&lowest_object, lowest);
  atomic_store(&object_span, lowest != 0 ? highest - lowest + 1 : 0);
  atomic_store(&bound_references, references);
}

static void remove_handle(uint64_t handle, enum object_kind kind) {
  for (size_t n = position_of(handle); n < object_count && objects[n].handle == handle; n++)
    if (objects[n].kind == kind) {
      memmove(objects + n, objects + n + 1, (object_count - n - 1) * sizeof *objects);
      object_count--;
      return;
    }
}

void objects_add(uint64_t handle, enum object_kind kind, uint64_t target) {
  if (handle == 0)
    return;
  uint64_t context = current_context();
  pthread_mutex_lock(&lock);
  remove_handle(handle, kind); // bound anew, or its end was not seen
  if (object_count == object_capacity && target != 0) {
    size_t capacity = object_capacity == 0 ? 16 : object_capacity * 2;
    struct object *grown = realloc(objects, capacity * sizeof *grown);
    if (grown != NULL) {
      objects = grown;
      object_capacity = capacity;
    }
  }
  if (object_count < object_capacity && target != 0) {
    size_t position = position_of(handle);
    memmove(objects + position + 1, objects + position, (object_count - position) * sizeof *objects);
    objects[position] = (struct object){handle, target, context, (uint8_t)kind};
    object_count++;
  }
  publish();
  pthread_mutex_unlock(&lock);
}

void objects_remove(uint64_t handle, enum object_kind kind) {
  pthread_mutex_lock(&lock);
  remove_handle(handle, kind);
  publish();
  pthread_mutex_unlock(&lock);
}

void objects_remove_context(uint64_t context) {
  pthread_mutex_lock(&lock);
  size_t kept = 0;
  for (size_t n = 0; n < object_count; n++)
    if (objects[n].context != context)
      objects[kept++] = objects[n];
  object_count = kept;
  publish();
  pthread_mutex_unlock(&lock);
}

unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]) {
  unsigned count = 0;
  pthread_mutex_lock(&lock);
  for (size_t n = position_of(word); n < object_count && objects[n].handle == word; n++)
    if (!is_reference(&objects[n]) && count < MAX_OBJECT_TARGETS)
      targets[count++] = objects[n].target;
  pthread_mutex_unlock(&lock);
  return count;
}

// The target of the first reference from `*position` on, 0 after the last one. The lock of the ranges may be
// held around this file's and never the other way round, so the targets are handed out one by one.
static uint64_t next_reference(size_t *position) {
  uint64_t target = 0;
  pthread_mutex_lock(&lock);
  while (target == 0 && *position < object_count) {
    const struct object *object = &objects[(*position)++];
    target = is_reference(object) ? object->target : 0;
  }
  pthread_mutex_unlock(&lock);
  return target;
}

bool references_reach_untouched(void) {
  size_t position = 0;
  for (uint64_t target; (target = next_reference(&position)) != 0;)
    if (memory_has_untouched(target, 1))
      return true;
  return false;
}

void references_take(struct range_list *taken) {
  size_t position = 0;
  for (uint64_t target; (target = next_reference(&position)) != 0;)
    memory_take(target, 1, taken);
}

static void reset(void) {
  object_count = 0;
  publish();
}
IN_CHILD(reset);
