// Copies of two and three dimensions, and copies whose sides may be host or device memory.
#include "arguments/arguments.h"

#include "base/bytes.h"
#include "memory/arrays.h"
#include "memory/memory.h"
#include "record/encode.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3, MEMORY_UNIFIED = 4 };

struct side_2d {
  uint64_t x, y;
  uint32_t type;
  uint64_t host, device, array, pitch;
};

struct copy_2d { // CUDA_MEMCPY2D
  struct side_2d source, destination;
  uint64_t width, height;
};
_Static_assert(sizeof(struct copy_2d) == 128, "CUDA_MEMCPY2D");

struct side_3d {
  uint64_t x, y, z, level;
  uint32_t type;
  uint64_t host, device, array, reserved, pitch, height;
};

struct copy_3d { // CUDA_MEMCPY3D
  struct side_3d source, destination;
  uint64_t width, height, depth;
};
_Static_assert(sizeof(struct copy_3d) == 200, "CUDA_MEMCPY3D");

// One side of a copy as rows in memory; `address` 0 for an array.
struct rows {
  uint64_t address, pitch, slice, width, height, depth;
  bool maybe_host;
};

static struct rows rows_of(const struct side_3d *side, const struct copy_3d *copy) {
  struct rows rows = {.width = copy->width, .height = copy->height, .depth = copy->depth};
  if (side->type == MEMORY_ARRAY)
    return rows;
  uint64_t start = side->type == MEMORY_HOST ? side->host : side->device;
  rows.pitch = side->pitch != 0 ? side->pitch : copy->width;
  rows.slice = rows.pitch * (side->height != 0 ? side->height : copy->height);
  rows.address = start + side->z * rows.slice + side->y * rows.pitch + side->x;
  rows.maybe_host = side->type == MEMORY_HOST || side->type == MEMORY_UNIFIED;
  return rows;
}

static struct side_3d widen(const struct side_2d *side) {
  return (struct side_3d){.x = side->x,
                          .y = side->y,
                          .type = side->type,
                          .host = side->host,
                          .device = side->device,
                          .array = side->array,
                          .pitch = side->pitch};
}

static bool is_2d(const struct call *call) {
  switch (call->function->id) {
  case ID_cuMemcpy2D_v2:
  case ID_cuMemcpy2DUnaligned_v2:
  case ID_cuMemcpy2DAsync_v2:
    return true;
  default:
    return false;
  }
}

static bool is_shaped(const struct call *call) {
  switch (call->function->id) {
  case ID_cuMemcpy3D_v2:
  case ID_cuMemcpy3DAsync_v2:
  case ID_cuMemcpy3DPeer:
  case ID_cuMemcpy3DPeerAsync:
    return true;
  default:
    return is_2d(call);
  }
}

// False when the application passed NULL.
static bool copy_of(const struct call *call, struct copy_3d *copy) {
  const void *given = (const void *)(uintptr_t)call->arguments[0];
  if (given == NULL || !is_shaped(call))
    return false;
  if (is_2d(call)) {
    struct copy_2d flat;
    memcpy(&flat, given, sizeof flat);
    *copy = (struct copy_3d){widen(&flat.source), widen(&flat.destination), flat.width, flat.height, 1};
  } else {
    memcpy(copy, given, sizeof *copy);
  }
  return true;
}

static bool add_rows_span(const struct rows *rows, struct span *span) {
  if (rows->address == 0 || rows->width == 0 || rows->height == 0 || rows->depth == 0)
    return false;
  *span = (struct span){rows->address,
                        (rows->depth - 1) * rows->slice + (rows->height - 1) * rows->pitch + rows->width};
  return true;
}

static bool add_side_span(const struct side_3d *side, const struct copy_3d *copy, struct span *span) {
  struct rows rows = rows_of(side, copy);
  if (side->type != MEMORY_ARRAY)
    return add_rows_span(&rows, span);
  *span = (struct span){array_base(side->array, false), 1};
  return span->address != 0;
}

unsigned copy_spans(const struct call *call, struct span spans[2]) {
  struct copy_3d copy;
  if (parameters[call->function->first_parameter].role != ROLE_CUSTOM)
    return array_copy_spans(call, spans);
  if (!copy_of(call, &copy))
    return 0;
  unsigned count = add_side_span(&copy.source, &copy, &spans[0]) ? 1 : 0;
  return count + (add_side_span(&copy.destination, &copy, &spans[count]) ? 1 : 0);
}

struct copy_3d_span spans_of_3d(const void *given) {
  struct copy_3d copy;
  struct copy_3d_span spans = {0};
  memcpy(&copy, given, sizeof copy);
  add_side_span(&copy.source, &copy, &spans.source);
  add_side_span(&copy.destination, &copy, &spans.destination);
  spans.host_source = rows_of(&copy.source, &copy).maybe_host;
  return spans;
}

static bool is_tracked(uint64_t address) {
  struct range range;
  return memory_find(address, &range);
}

// Rows of host memory, tightly packed.
static void attach_rows(struct call *call, unsigned part, const struct rows *rows) {
  uint64_t total;
  if (!rows->maybe_host || rows->address == 0 || __builtin_mul_overflow(rows->width, rows->height, &total) ||
      __builtin_mul_overflow(total, rows->depth, &total) || total == 0 || total > SIZE_MAX / 2 ||
      is_tracked(rows->address))
    return;
  const uint8_t *start = (const uint8_t *)(uintptr_t)rows->address;
  if (rows->pitch == rows->width && (rows->depth == 1 || rows->slice == rows->pitch * rows->height)) {
    attach_unsafe(call, 0, part, start, total);
    return;
  }
  uint8_t *packed = malloc(total);
  bool whole = packed != NULL;
  for (uint64_t z = 0; whole && z < rows->depth; z++)
    for (uint64_t y = 0; whole && y < rows->height; y++)
      whole = read_memory(packed + (z * rows->height + y) * rows->width,
                          start + z * rows->slice + y * rows->pitch, rows->width);
  if (whole && total <= INLINE_BYTES)
    attach_unsafe(call, 0, part, packed, total); // into the scratch, which outlives `packed`
  else if (whole)
    attach(call, 0, part, packed, total);
  free(packed);
}

void rectangle_enter(struct call *call) {
  struct copy_3d copy;
  if (!copy_of(call, &copy))
    return;
  attach(call, 0, 0, (const void *)(uintptr_t)call->arguments[0],
         is_2d(call) ? sizeof(struct copy_2d) : sizeof(struct copy_3d));
  struct rows source = rows_of(&copy.source, &copy);
  attach_rows(call, 1, &source);
}

void rectangle_leave(struct call *call) {
  struct copy_3d copy;
  if (!copy_of(call, &copy))
    return;
  struct rows destination = rows_of(&copy.destination, &copy);
  attach_rows(call, 2, &destination);
}

void copy_enter(struct call *call) {
  if (call->arguments[2] != 0 && !is_tracked(call->arguments[1]))
    attach_unsafe(call, 1, 1, (const void *)(uintptr_t)call->arguments[1], call->arguments[2]);
}

void copy_leave(struct call *call) {
  if (call->arguments[2] != 0 && !is_tracked(call->arguments[0]))
    attach_unsafe(call, 0, 2, (const void *)(uintptr_t)call->arguments[0], call->arguments[2]);
}
