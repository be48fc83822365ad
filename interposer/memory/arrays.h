// What kernels reach by a handle: arrays as ranges of memory, textures and surfaces, tensor maps.
#pragma once

#include "memory/memory.h"

#define MAX_ARRAY_BYTES ((uint64_t)1 << 44)
enum { MAX_ARRAY_PARTS = 64 };

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

struct CUDA_ARRAY3D_DESCRIPTOR;
// After an array was made. NULL: its contents cannot be read, `problem` says why.
const struct array_layout *arrays_add(uint64_t handle, const struct CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                      bool mipmapped, uint32_t levels, const char **problem);
// A level of a mipmapped array or a plane of an array.
void arrays_add_part(uint64_t handle, uint64_t parent, bool mipmapped, uint32_t number);
uint64_t array_base(uint64_t handle, bool mipmapped); // 0: not known
void arrays_remove(uint64_t base);
void arrays_remove_context(uint64_t context);
int read_array(uint64_t base, uint64_t offset, size_t bytes, uint8_t *destination); // CUresult

// ---- texture and surface objects ----------------------------------------------------------------

enum { MAX_OBJECT_TARGETS = 2 };

// Which memory a word reaches if it is the handle of a texture or surface object; asked only for words
// between `lowest_object` and that plus `object_span`.
unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]);
extern _Atomic uint64_t lowest_object, object_span;

// ---- tensor maps --------------------------------------------------------------------------------

enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGNMENT = 64 };
extern atomic_uint tensor_maps; // 0: there is none
uint64_t tensor_map_address(const void *bytes);

// ---- calls that make, bind and end them; after successful ones ----------------------------------

void follow_arrays(const struct call *call);     // makes or ends
void follow_binding(const struct call *call);    // of a texture or surface reference
void follow_tensor_map(const struct call *call); // encodes one, or changes its address
