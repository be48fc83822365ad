// Arrays as ranges of memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_ARRAY_BYTES ((uint64_t)1 << 44)
enum { MAX_ARRAY_PARTS = 64 };

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
int read_array(uint64_t base, uint64_t offset, size_t bytes, uint8_t *destination); // CUresult
