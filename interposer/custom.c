// Named exceptions: functions whose arguments the generic path cannot follow. The table marks each of them
// `custom`.
#define _GNU_SOURCE
#include "shim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- structs of the driver API that are followed ------------------------------------------------

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3, MEMORY_UNIFIED = 4 };

struct launch_config { // CUlaunchConfig
  uint32_t grid[3], block[3], shared_bytes;
  uint64_t stream, attributes;
  uint32_t attribute_count;
};
_Static_assert(sizeof(struct launch_config) == 56, "CUlaunchConfig");

enum { LAUNCH_ATTRIBUTE_BYTES = 72, MAX_LAUNCH_ATTRIBUTES = 64 };

struct context_parameters { // CUctxCreateParams
  uint64_t affinity;
  int32_t affinity_count;
  uint64_t graphics;
};
_Static_assert(sizeof(struct context_parameters) == 24, "CUctxCreateParams");

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

// ---- copies of two and three dimensions ---------------------------------------------------------

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

// False when the application passed NULL.
static bool copy_of(const struct call *call, struct copy_3d *copy) {
  const void *given = (const void *)(uintptr_t)call->arguments[0];
  if (given == NULL)
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

unsigned copy_spans(const struct call *call, struct span spans[2]) {
  struct copy_3d copy;
  if (!copy_of(call, &copy))
    return 0;
  struct rows source = rows_of(&copy.source, &copy), destination = rows_of(&copy.destination, &copy);
  unsigned count = add_rows_span(&source, &spans[0]) ? 1 : 0;
  return count + (add_rows_span(&destination, &spans[count]) ? 1 : 0);
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

// ---- launches -----------------------------------------------------------------------------------

static void launch_positions(const struct call *call, unsigned *values, int *extra) {
  bool with_config = call->function->id == ID_cuLaunchKernelEx;
  *values = with_config ? 2 : 9;
  *extra = with_config ? 3 : call->function->id == ID_cuLaunchKernel ? 10 : -1;
}

static void pack_extra(struct call *call, const uint64_t *words) {
  const void *buffer = NULL;
  uint64_t bytes = 0;
  for (; words[0] == 1 || words[0] == 2; words += 2) { // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE
    if (words[0] == 1)
      buffer = (const void *)(uintptr_t)words[1];
    else if (words[1] != 0)
      memcpy(&bytes, (const void *)(uintptr_t)words[1], 8);
  }
  if (buffer == NULL || bytes > 65536)
    return;
  uint8_t *copy = take_scratch(call, bytes);
  if (copy != NULL && read_memory(copy, buffer, bytes)) {
    call->packed = copy;
    call->packed_bytes = (uint32_t)bytes;
  }
}

void pack_launch_parameters(struct call *call) {
  unsigned values_position;
  int extra_position;
  launch_positions(call, &values_position, &extra_position);
  const uint64_t *values = (const uint64_t *)(uintptr_t)call->arguments[values_position];
  struct kernel *kernel = call->kernel;
  if (kernel->owner == 0)
    write_note(NOTE_FUNCTION_UNKNOWN, call->record_function, call->number, "%s",
               kernel->name[0] != '\0' ? kernel->name : "no recorded call gave this handle");
  if (values == NULL) {
    if (extra_position < 0 || call->arguments[extra_position] == 0)
      return; // a kernel without parameters
    pack_extra(call, (const uint64_t *)(uintptr_t)call->arguments[extra_position]);
    if (call->packed == NULL)
      write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number,
                 "%s: `extra` has no buffer that can be read", kernel->name);
    return;
  }
  ask_layout(kernel);
  uint8_t *packed = kernel->parameter_count >= 0 ? take_scratch(call, kernel->parameter_bytes) : NULL;
  for (int32_t n = 0; packed != NULL && n < kernel->parameter_count; n++)
    if (values[n] == 0)
      packed = NULL; // the driver will refuse it, or it was not the kernel's layout
  if (packed == NULL) {
    write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number, "%s", kernel->name);
    return;
  }
  memset(packed, 0, kernel->parameter_bytes);
  for (int32_t n = 0; n < kernel->parameter_count; n++)
    memcpy(packed + kernel->layout[n * 2], (const void *)(uintptr_t)values[n], kernel->layout[n * 2 + 1]);
  call->packed = packed;
  call->packed_bytes = kernel->parameter_bytes;
}

static void attach_launch(struct call *call) {
  unsigned values_position;
  int extra_position;
  launch_positions(call, &values_position, &extra_position);
  if (call->packed != NULL && call->arguments[values_position] != 0) {
    attach(call, values_position, 0, call->packed, call->packed_bytes);
    attach(call, values_position, 1, call->kernel->layout, (uint64_t)call->kernel->parameter_count * 8);
  } else if (call->packed != NULL && extra_position >= 0) {
    attach(call, (unsigned)extra_position, 0, call->packed, call->packed_bytes);
  }
  uint32_t *asked = &call->kernel->attributes_window, window = atomic_load(&window_number);
  if (__atomic_load_n(asked, __ATOMIC_RELAXED) != window &&
      __atomic_exchange_n(asked, window, __ATOMIC_RELAXED) != window) {
    int32_t *pairs = (int32_t *)(void *)take_scratch(call, 2 * KERNEL_ATTRIBUTES * sizeof *pairs);
    size_t count = pairs != NULL ? ask_attributes(call->kernel, pairs) : 0;
    if (count > 0)
      attach(call, (unsigned)call->function->effect_terms[0].first, 1, pairs, count * 2 * sizeof *pairs);
  }
  if (call->function->id != ID_cuLaunchKernelEx || call->arguments[0] == 0)
    return;
  const struct launch_config *config = (const struct launch_config *)(uintptr_t)call->arguments[0];
  attach(call, 0, 0, config, sizeof *config);
  if (config->attributes != 0 && config->attribute_count > 0 &&
      config->attribute_count <= MAX_LAUNCH_ATTRIBUTES)
    attach_unsafe(call, 0, 1, (const void *)(uintptr_t)config->attributes,
                  (uint64_t)config->attribute_count * LAUNCH_ATTRIBUTE_BYTES);
}

// ---- files and module variables -----------------------------------------------------------------

static void attach_file(struct call *call, unsigned parameter, const char *path) {
  int descriptor = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  struct stat status;
  if (descriptor < 0)
    return; // the driver will say so
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_t bytes = (size_t)status.st_size;
    void *contents = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (contents != MAP_FAILED) {
      attach_unsafe(call, parameter, 1, contents, bytes);
      munmap(contents, bytes);
    }
  }
  close(descriptor);
}

static void follow_variable(struct call *call) {
  uint64_t *address = (uint64_t *)(uintptr_t)call->arguments[0],
           *bytes = (uint64_t *)(uintptr_t)call->arguments[1];
  uint64_t *found = take_scratch(call, 16);
  if (found == NULL)
    return;
  if (address != NULL && bytes != NULL) {
    found[0] = *address;
    found[1] = *bytes;
  } else {
    unsigned slot = call->function->id == ID_cuModuleGetGlobal_v2 ? SLOT_cuModuleGetGlobal_v2
                    : call->function->id == ID_cuLibraryGetGlobal ? SLOT_cuLibraryGetGlobal
                                                                  : SLOT_cuLibraryGetManaged;
    int (*real)(uint64_t *, uint64_t *, uint64_t, uint64_t) = real_function(slot);
    if (real(&found[0], &found[1], call->arguments[2], call->arguments[3]) != SUCCESS)
      return;
  }
  attach(call, 3, 1, found, 16);
  memory_add(found[0], found[1], RANGE_GLOBAL, current_context(), call->arguments[2]);
}

// ---- the switch ---------------------------------------------------------------------------------

void custom_enter(struct call *call) {
  struct copy_3d copy;
  switch (call->function->id) {
  case ID_cuLaunchKernel:
  case ID_cuLaunchKernelEx:
  case ID_cuLaunchCooperativeKernel:
    attach_launch(call);
    break;
  case ID_cuMemcpy2D_v2:
  case ID_cuMemcpy2DUnaligned_v2:
  case ID_cuMemcpy2DAsync_v2:
  case ID_cuMemcpy3D_v2:
  case ID_cuMemcpy3DAsync_v2:
    if (copy_of(call, &copy)) {
      attach(call, 0, 0, (const void *)(uintptr_t)call->arguments[0],
             is_2d(call) ? sizeof(struct copy_2d) : sizeof(struct copy_3d));
      struct rows source = rows_of(&copy.source, &copy);
      attach_rows(call, 1, &source);
    }
    break;
  case ID_cuMemcpy:
  case ID_cuMemcpyAsync:
    if (call->arguments[2] != 0 && !is_tracked(call->arguments[1]))
      attach_unsafe(call, 1, 1, (const void *)(uintptr_t)call->arguments[1], call->arguments[2]);
    break;
  case ID_cuModuleLoad:
  case ID_cuLibraryLoadFromFile:
    attach_file(call, 1, (const char *)(uintptr_t)call->arguments[1]);
    break;
  case ID_cuCtxCreate_v4: {
    const struct context_parameters *given = (const struct context_parameters *)(uintptr_t)call->arguments[1];
    if (given == NULL)
      break;
    attach(call, 1, 0, given, sizeof *given);
    if (given->affinity != 0 || given->graphics != 0)
      write_note(NOTE_STRUCT_POINTER, call->record_function, call->number,
                 "CUctxCreateParams holds pointers that were recorded by value only");
    break;
  }
  default: // cuModuleLoadDataEx, cuLibraryLoadData: custom for the engine alone
    break;
  }
}

void custom_leave(struct call *call, int result) {
  struct copy_3d copy;
  if (result != SUCCESS)
    return;
  switch (call->function->id) {
  case ID_cuModuleGetGlobal_v2:
  case ID_cuLibraryGetGlobal:
  case ID_cuLibraryGetManaged:
    follow_variable(call);
    break;
  case ID_cuMemcpy2D_v2:
  case ID_cuMemcpy2DUnaligned_v2:
  case ID_cuMemcpy3D_v2:
    if (copy_of(call, &copy)) {
      struct rows destination = rows_of(&copy.destination, &copy);
      attach_rows(call, 2, &destination);
    }
    break;
  case ID_cuMemcpy:
    if (call->arguments[2] != 0 && !is_tracked(call->arguments[0]))
      attach_unsafe(call, 0, 2, (const void *)(uintptr_t)call->arguments[0], call->arguments[2]);
    break;
  default:
    break;
  }
}
