// What kernels reach by a handle instead of an address: texture and surface objects, whose handles are in
// parameters and in memory, texture and surface references, which any kernel of their module may use, and
// tensor maps.
#include "driver/real.h"
#include "generated/structs.h"
#include "memory/arrays.h"

// ---- tensor maps --------------------------------------------------------------------------------

// 128 opaque bytes that an application encodes on the host and hands to kernels by value or in memory. The
// latest are remembered with the address they were encoded for, which is what a kernel reaches through them.
//
// Not yet seen on a GPU (GT-TENSOR-MAPS).
enum { REMEMBERED = 4096, CHAINS = 1024 }; // powers of two

struct map {
  uint8_t bytes[TENSOR_MAP_BYTES];
  uint64_t address;
  uint32_t next; // in its chain, plus 1
};

atomic_uint tensor_maps;
static MUTEX(maps_lock);
static struct map maps[REMEMBERED];
static uint32_t chains[CHAINS]; // position plus 1
static uint64_t added;
// A bit for the first word of each map there ever was: memory is searched, and nearly all of it is no map.
static _Atomic uint64_t first_words[64];

static uint64_t first_word_hash(const void *bytes) {
  return word_at(bytes, 0) * 0x9e3779b97f4a7c15u >> 52; // 12 bits
}

static uint32_t *chain_of(const uint8_t *bytes) {
  return &chains[crc32c(0, bytes, TENSOR_MAP_BYTES) % CHAINS];
}

static struct map *find_map(const uint8_t *bytes) {
  for (uint32_t at = *chain_of(bytes); at != 0; at = maps[at - 1].next)
    if (memcmp(maps[at - 1].bytes, bytes, TENSOR_MAP_BYTES) == 0)
      return &maps[at - 1];
  return NULL;
}

static void unlink_map(uint32_t position) {
  uint32_t *at = chain_of(maps[position].bytes);
  while (*at != 0 && *at != position + 1)
    at = &maps[*at - 1].next;
  if (*at != 0)
    *at = maps[position].next;
}

static void tensor_map_add(const void *bytes, uint64_t address) {
  uint64_t hash = first_word_hash(bytes);
  atomic_fetch_or(&first_words[hash / 64], (uint64_t)1 << hash % 64);
  HOLD(maps_lock);
  struct map *map = find_map(bytes);
  if (map == NULL) {
    uint32_t position = (uint32_t)(added % REMEMBERED);
    if (added++ >= REMEMBERED)
      unlink_map(position);
    else
      atomic_store(&tensor_maps, (unsigned)added);
    map = &maps[position];
    memcpy(map->bytes, bytes, TENSOR_MAP_BYTES);
    uint32_t *chain = chain_of(bytes);
    map->next = *chain;
    *chain = position + 1;
  }
  map->address = address;
}

uint64_t tensor_map_address(const void *bytes) {
  uint64_t hash = first_word_hash(bytes);
  if ((atomic_load_explicit(&first_words[hash / 64], memory_order_relaxed) >> hash % 64 & 1) == 0)
    return 0;
  HOLD(maps_lock);
  const struct map *map = find_map(bytes);
  return map != NULL ? map->address : 0;
}

// ---- objects and references ---------------------------------------------------------------------

enum object_kind { OBJECT_TEXTURE, OBJECT_SURFACE, OBJECT_REFERENCE, NO_OBJECT };

struct object {
  uint64_t handle, target, context; // target: an address of a range, arrays included
  uint8_t kind;                     // enum object_kind
};

// Handles may be as small as 1: words between the lowest and the highest are looked up.
ZERO_IN_CHILD _Atomic uint64_t lowest_object, object_span;
ZERO_IN_CHILD atomic_uint bound_references;

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

// target 0: unbound, or ended.
static void set_object(uint64_t handle, enum object_kind kind, uint64_t target) {
  if (handle == 0)
    return;
  uint64_t context = current_context();
  HOLD(lock);
  remove_handle(handle, kind); // bound anew, or its end was not seen
  if (target != 0 && HAS_ROOM(objects, object_count, object_capacity)) {
    size_t position = position_of(handle);
    memmove(objects + position + 1, objects + position, (object_count - position) * sizeof *objects);
    objects[position] = (struct object){handle, target, context, (uint8_t)kind};
    object_count++;
  }
  publish();
}

void objects_remove_context(uint64_t context) {
  HOLD(lock);
  size_t kept = 0;
  for (size_t n = 0; n < object_count; n++)
    if (objects[n].context != context)
      objects[kept++] = objects[n];
  object_count = kept;
  publish();
}

unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]) {
  unsigned count = 0;
  HOLD(lock);
  for (size_t n = position_of(word); n < object_count && objects[n].handle == word; n++)
    if (!is_reference(&objects[n]) && count < MAX_OBJECT_TARGETS)
      targets[count++] = objects[n].target;
  return count;
}

// The target of the first reference from `*position` on, 0 after the last one. The lock of the ranges may be
// held around this file's and never the other way round, so the targets are handed out one by one.
static uint64_t next_reference(size_t *position) {
  uint64_t target = 0;
  HOLD(lock);
  while (target == 0 && *position < object_count) {
    const struct object *object = &objects[(*position)++];
    target = is_reference(object) ? object->target : 0;
  }
  return target;
}

bool references_reach(struct range_list *taken) {
  size_t position = 0;
  for (uint64_t target; (target = next_reference(&position)) != 0;)
    if (taken != NULL)
      memory_take(target, 1, taken);
    else if (memory_has_untouched(target, 1))
      return true;
  return false;
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

static enum object_kind kind_of(enum handle_type type) {
  return type == HANDLE_CUtexObject    ? OBJECT_TEXTURE
         : type == HANDLE_CUsurfObject ? OBJECT_SURFACE
         : type == HANDLE_CUtexref     ? OBJECT_REFERENCE
                                       : NO_OBJECT;
}

void follow_binding(const struct call *call) {
  const struct function *function = call->function;
  int texture = position_of_handle(function, HANDLE_CUtexref);
  int reference = texture >= 0 ? texture : position_of_handle(function, HANDLE_CUsurfref);
  int array = position_of_handle(function, HANDLE_CUarray);
  int mipmaps = position_of_handle(function, HANDLE_CUmipmappedArray);
  uint64_t target = array >= 0     ? array_base(call->arguments[array], false)
                    : mipmaps >= 0 ? array_base(call->arguments[mipmaps], true)
                                   : call->arguments[2]; // an address in all versions
  set_object(call->arguments[reference], OBJECT_REFERENCE, target);
}

void follow_tensor_map(const struct call *call) {
  bool replaces = call->function->parameter_count == 2;
  if (call->arguments[0] != 0)
    tensor_map_add(pointer_argument(call, 0), call->arguments[replaces ? 1 : 3]);
}

void follow_arrays(const struct call *call) {
  const struct function *function = call->function;
  const uint64_t *words = call->arguments;
  enum object_kind made = kind_of(function->gives), ended = kind_of(ended_by(function));
  int mipmaps = position_of_handle(function, HANDLE_CUmipmappedArray);
  if ((made == OBJECT_TEXTURE || made == OBJECT_SURFACE) && words[1] != 0)
    set_object(handle_given_out(call), made, target_of(pointer_argument(call, 1)));
  else if (function->gives == HANDLE_CUarray && // a level or a plane
           (mipmaps == 1 || position_of_handle(function, HANDLE_CUarray) == 1))
    arrays_add_part(handle_given_out(call), words[1], mipmaps == 1, (uint32_t)words[2]);
  if (ended != NO_OBJECT)
    set_object(words[0], ended, 0);
}
