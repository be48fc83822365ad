// Arrays as ranges of memory (arrays.c), and the objects and tensor maps that reach memory by a handle or by
// their bytes (objects.c, tensor_maps.c).
#pragma once

#include "memory/memory.h"

#define ARRAY_ADDRESSES ((uint64_t)0xa77a << 48) // where the ranges of arrays begin: no memory is there
#define MAX_ARRAY_BYTES ((uint64_t)1 << 44)
enum { MAX_ARRAY_PARTS = 64, MAX_OBJECT_TARGETS = 2 };

struct array_descriptor { // CUDA_ARRAY3D_DESCRIPTOR
  uint64_t width, height, depth;
  uint32_t format, channels, flags;
};
_Static_assert(sizeof(struct array_descriptor) == 40, "CUDA_ARRAY3D_DESCRIPTOR");

// A mipmap level, or one plane of it: `slices` (or layers) of `rows`, one after another.
struct array_part {
  uint32_t level, plane;
  uint64_t width_bytes, rows, slices;
};

struct array_layout {
  uint64_t base, bytes;
  uint64_t count;
  struct array_part parts[MAX_ARRAY_PARTS];
};

// After an array was made. NULL: its contents cannot be read, `problem` says why.
const struct array_layout *arrays_add(uint64_t handle, const struct array_descriptor *descriptor,
                                      bool mipmapped, uint32_t levels, const char **problem);
// A level of a mipmapped array or a plane of an array.
void arrays_add_part(uint64_t handle, uint64_t parent, bool mipmapped, uint32_t level, uint32_t plane);
uint64_t array_base(uint64_t handle, bool mipmapped); // 0: not known
void arrays_remove(uint64_t base);
void arrays_remove_context(uint64_t context);
void reset_arrays_after_fork(void);
int read_array(uint64_t base, uint64_t offset, size_t bytes, uint8_t *destination); // CUresult

enum object_kind { OBJECT_TEXTURE, OBJECT_SURFACE, OBJECT_REFERENCE };
void objects_add(uint64_t handle, enum object_kind kind, uint64_t target); // target 0: unbound
void objects_remove(uint64_t handle, enum object_kind kind);
void objects_remove_context(uint64_t context);
void reset_objects_after_fork(void);
// Which memory a word reaches if it is the handle of a texture or surface object; asked only for words
// between `lowest_object` and that plus `object_span`.
unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]);
extern _Atomic uint64_t lowest_object, object_span;
extern atomic_uint bound_references; // which every launch may use
bool references_reach_untouched(void);
void references_take(struct range_list *taken);
// Tensor maps (tensor_maps.c): how many are known, and the global address of one, 0 for bytes that are none.
enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGNMENT = 64 };
extern atomic_uint tensor_maps;
void tensor_map_add(const void *bytes, uint64_t address);
uint64_t tensor_map_address(const void *bytes);
void reset_tensor_maps_after_fork(void);

void follow_arrays(const struct call *call); // after a successful call that makes, binds or ends them
