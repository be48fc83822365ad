// What kernels reach by a handle instead of an address: texture and surface objects, whose handles are in
// parameters and in memory, texture and surface references, of any kernel of their module, and tensor maps.
#include "driver/real.h"
#include "generated/structs.h"
#include "memory/arrays.h"

// ---- tensor maps --------------------------------------------------------------------------------

// 128 opaque bytes that an application encodes on the host and hands to kernels by value or in memory. The
// latest of each set are remembered by a hash of all their bytes, with the address they were encoded for,
// which is what a kernel reaches through them.
//
// Not yet seen on a GPU (GT-TENSOR-MAPS).
enum { SETS = 1024, SET_MAPS = 16 }; // together far more than the 4,096 of docs/limits.md: sets fill unevenly

struct map {
  uint64_t hash, address; // hash 0: none
};

atomic_uint tensor_maps;
static MUTEX(maps_lock);
static struct {
  struct map maps[SET_MAPS];
  unsigned added;
} sets[SETS];
// A bit for the first word of each map there ever was: memory is searched, and nearly all of it is no map.
static _Atomic uint64_t first_words[64];

static uint64_t first_word_hash(const void *bytes) {
  return word_at(bytes, 0) * 0x9e3779b97f4a7c15u >> 52; // 12 bits
}

static uint64_t hash_of_map(const void *bytes) {
  uint64_t hash = 0;
  for (size_t n = 0; n < TENSOR_MAP_BYTES; n += 8) {
    hash = (hash ^ word_at(bytes, n)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

static struct map *find_map(uint64_t hash) {
  struct map *map = sets[hash % SETS].maps, *end = map + SET_MAPS;
  while (map < end && map->hash != hash)
    map++;
  return map < end ? map : NULL;
}

static void tensor_map_add(const void *bytes, uint64_t address) {
  uint64_t first_word = first_word_hash(bytes), hash = hash_of_map(bytes);
  atomic_fetch_or(&first_words[first_word / 64], (uint64_t)1 << first_word % 64);
  HOLD(maps_lock);
  struct map *map = find_map(hash);
  if (map == NULL)
    map = &sets[hash % SETS].maps[sets[hash % SETS].added++ % SET_MAPS];
  *map = (struct map){hash, address};
  atomic_store(&tensor_maps, 1);
}

uint64_t tensor_map_address(const void *bytes) {
  uint64_t first_word = first_word_hash(bytes);
  if ((atomic_load_explicit(&first_words[first_word / 64], memory_order_relaxed) >> first_word % 64 & 1) == 0)
    return 0;
  HOLD(maps_lock);
  const struct map *map = find_map(hash_of_map(bytes));
  return map != NULL ? map->address : 0;
}

// ---- texture and surface objects ----------------------------------------------------------------

struct object {
  uint64_t handle, target; // target: an address of a range, arrays included
  enum handle_type type;
};

// Handles may be as small as 1: words between the lowest and the highest are looked up.
ZERO_IN_CHILD _Atomic uint64_t lowest_object, object_span;

static MUTEX(lock);
static ZERO_IN_CHILD struct object *objects; // sorted by handle
static ZERO_IN_CHILD size_t object_count, object_capacity;

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

// target 0: it has ended. One whose context ends stays until its handle is given out again: it leads to no
// range then.
static void set_object(uint64_t handle, enum handle_type type, uint64_t target) {
  HOLD(lock);
  size_t n = position_of(handle);
  while (n < object_count && objects[n].handle == handle && objects[n].type != type)
    n++;
  bool known = n < object_count && objects[n].handle == handle;
  if (known && target != 0) {
    objects[n].target = target;
  } else if (known) {
    memmove(objects + n, objects + n + 1, (--object_count - n) * sizeof *objects);
  } else if (target != 0 && handle != 0 && HAS_ROOM(objects, object_count, object_capacity)) {
    memmove(objects + n + 1, objects + n, (object_count++ - n) * sizeof *objects);
    objects[n] = (struct object){handle, target, type};
  }
  atomic_store(&object_span, 0);
  if (object_count == 0)
    return;
  atomic_store(&lowest_object, objects[0].handle);
  atomic_store(&object_span, objects[object_count - 1].handle - objects[0].handle + 1);
}

unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]) {
  unsigned count = 0;
  HOLD(lock);
  for (size_t n = position_of(word); n < object_count && objects[n].handle == word; n++)
    if (count < MAX_OBJECT_TARGETS)
      targets[count++] = objects[n].target;
  return count;
}

// ---- calls that make, bind and end arrays and what reaches them ---------------------------------

static uint64_t target_of(const struct CUDA_RESOURCE_DESC *resource) {
  switch (resource->resType) {
  case RESOURCE_ARRAY:
    return array_base(resource->res.array.hArray, false);
  case RESOURCE_MIPMAPPED_ARRAY:
    return array_base(resource->res.mipmap.hMipmappedArray, true);
  case RESOURCE_LINEAR:
    return resource->res.linear.devPtr;
  case RESOURCE_PITCH2D:
    return resource->res.pitch2D.devPtr;
  default:
    return 0;
  }
}

// What a reference is bound to may be used by any launch from then on; later bindings are not looked for.
void follow_binding(const struct call *call) {
  int array = position_of_handle(call->function, HANDLE_CUarray);
  int mipmaps = position_of_handle(call->function, HANDLE_CUmipmappedArray);
  memory_bind(array >= 0     ? array_base(call->arguments[array], false)
              : mipmaps >= 0 ? array_base(call->arguments[mipmaps], true)
                             : call->arguments[2]); // an address in all versions
}

static bool is_object(enum handle_type type) {
  return type == HANDLE_CUtexObject || type == HANDLE_CUsurfObject;
}

void follow_tensor_map(const struct call *call) {
  bool replaces = call->function->parameter_count == 2;
  if (call->arguments[0] != 0)
    tensor_map_add(pointer_argument(call, 0), call->arguments[replaces ? 1 : 3]);
}

void follow_arrays(const struct call *call) {
  const struct function *function = call->function;
  const uint64_t *words = call->arguments;
  int mipmaps = position_of_handle(function, HANDLE_CUmipmappedArray);
  if (is_object(function->gives) && words[1] != 0)
    set_object(handle_given_out(call), function->gives, target_of(pointer_argument(call, 1)));
  else if (function->gives == HANDLE_CUarray && // a level or a plane
           (mipmaps == 1 || position_of_handle(function, HANDLE_CUarray) == 1))
    arrays_add_part(handle_given_out(call), words[1], mipmaps == 1, (uint32_t)words[2]);
  if (is_object(ended_by(function)))
    set_object(words[0], ended_by(function), 0);
}
