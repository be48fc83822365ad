// Copies of two and three dimensions and of arrays, copies whose sides may be host or device memory, copies
// in batches, and batches of waits and writes of single values.
#include "arguments/arguments.h"
#include "generated/structs.h"
#include "memory/arrays.h"
#include "record/encode.h"

// One side of a copy as rows in memory; `address` 0 for an array.
struct rows {
  uint64_t address, pitch, slice, width, height, depth;
  bool maybe_host;
};

static struct span span_of(const struct rows *rows) {
  if (rows->address == 0 || rows->width == 0 || rows->height == 0 || rows->depth == 0)
    return (struct span){0, 0};
  return (struct span){rows->address,
                       (rows->depth - 1) * rows->slice + (rows->height - 1) * rows->pitch + rows->width};
}

// False: more than can be counted.
static bool count_bytes(const struct rows *rows, uint64_t *bytes) {
  return !__builtin_mul_overflow(rows->width, rows->height, bytes) &&
         !__builtin_mul_overflow(*bytes, rows->depth, bytes);
}

// Tightly packed. False: not readable.
static bool gather(const struct rows *rows, uint8_t *to) {
  for (uint64_t z = 0; z < rows->depth; z++)
    for (uint64_t y = 0; y < rows->height; y++, to += rows->width)
      if (!read_memory(to, (const void *)(uintptr_t)(rows->address + z * rows->slice + y * rows->pitch),
                       rows->width))
        return false;
  return true;
}

static bool is_tracked(uint64_t address) {
  struct range range;
  return memory_find(address, &range);
}

// ---- two and three dimensions -------------------------------------------------------------------

// One side of a copy, and where it begins among slices and rows.
struct side {
  uint32_t type;
  uint64_t x, y, z, host, device, array, pitch, height;
};

struct copy {
  struct side source, destination;
  uint64_t width, height, depth;
};

#define SIDE_2D(given, side)                                                                                 \
  .type = (given)->side##MemoryType, .x = (given)->side##XInBytes, .y = (given)->side##Y,                    \
  .host = (given)->side##Host, .device = (given)->side##Device, .array = (given)->side##Array,               \
  .pitch = (given)->side##Pitch
#define SIDE_3D(given, side) SIDE_2D(given, side), .z = (given)->side##Z, .height = (given)->side##Height

static struct rows rows_of(const struct side *side, const struct copy *copy) {
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

static bool is_2d(const struct call *call) {
  return parameter_of(call->function, 0)->element_bytes == sizeof(struct CUDA_MEMCPY2D);
}

static struct copy copy_3d(const struct CUDA_MEMCPY3D *given) {
  return (struct copy){
      {SIDE_3D(given, src)}, {SIDE_3D(given, dst)}, given->WidthInBytes, given->Height, given->Depth};
}

// False when the application passed NULL.
static bool copy_of(const struct call *call, struct copy *copy) {
  const void *given = pointer_argument(call, 0);
  if (given == NULL)
    return false;
  if (is_2d(call)) {
    const struct CUDA_MEMCPY2D *flat = given;
    *copy = (struct copy){{SIDE_2D(flat, src)}, {SIDE_2D(flat, dst)}, flat->WidthInBytes, flat->Height, 1};
  } else {
    *copy = copy_3d(given);
  }
  return true;
}

static struct span span_of_side(const struct side *side, const struct copy *copy) {
  struct rows rows = rows_of(side, copy);
  return side->type == MEMORY_ARRAY ? (struct span){array_base(side->array, false), 1} : span_of(&rows);
}

static unsigned array_copy_spans(const struct call *call, struct span spans[2]) {
  const struct function *function = call->function;
  unsigned count = 0;
  for (unsigned n = 0; n < function->parameter_count && count < 2; n++) {
    const struct parameter *parameter = parameter_of(function, n);
    uint64_t length = call->arguments[function->parameter_count - 1]; // of copies with device memory
    if (parameter->role == ROLE_ADDRESS && length != 0)
      spans[count++] = (struct span){call->arguments[n], length};
    else if (parameter->role == ROLE_HANDLE && parameter->handle == HANDLE_CUarray)
      spans[count++] = (struct span){array_base(call->arguments[n], false), 1};
  }
  return count;
}

unsigned copy_spans(const struct call *call, struct span spans[2]) {
  struct copy copy;
  if (parameter_of(call->function, 0)->role != ROLE_CUSTOM)
    return array_copy_spans(call, spans);
  if (!copy_of(call, &copy))
    return 0;
  spans[0] = span_of_side(&copy.source, &copy);
  spans[1] = span_of_side(&copy.destination, &copy);
  return 2;
}

struct copy_3d_span spans_of_3d(const struct CUDA_MEMCPY3D *given) {
  struct copy copy = copy_3d(given);
  return (struct copy_3d_span){span_of_side(&copy.source, &copy), span_of_side(&copy.destination, &copy),
                               rows_of(&copy.source, &copy).maybe_host};
}

// Rows of host memory, tightly packed.
static void attach_rows(struct call *call, unsigned part, const struct rows *rows) {
  uint64_t total;
  if (!rows->maybe_host || rows->address == 0 || !count_bytes(rows, &total) || total == 0 ||
      total > SIZE_MAX / 2 || is_tracked(rows->address))
    return;
  if (rows->pitch == rows->width && (rows->depth == 1 || rows->slice == rows->pitch * rows->height)) {
    attach_unsafe(call, 0, part, (const void *)(uintptr_t)rows->address, total);
    return;
  }
  uint8_t *packed = malloc(total);
  if (packed != NULL && gather(rows, packed))
    attach_unsafe(call, 0, part, packed, total); // into the scratch or the blobs file, which outlive `packed`
  free(packed);
}

void rectangle_enter(struct call *call) {
  struct copy copy;
  if (!copy_of(call, &copy))
    return;
  attach(call, 0, 0, pointer_argument(call, 0), parameter_of(call->function, 0)->element_bytes);
  struct rows source = rows_of(&copy.source, &copy);
  attach_rows(call, 1, &source);
}

void rectangle_leave(struct call *call) {
  struct copy copy;
  if (!copy_of(call, &copy))
    return;
  struct rows destination = rows_of(&copy.destination, &copy);
  attach_rows(call, 2, &destination);
}

static void attach_side(struct call *call, unsigned position, unsigned part) {
  if (call->arguments[2] != 0 && !is_tracked(call->arguments[position]))
    attach_unsafe(call, position, part, pointer_argument(call, position), call->arguments[2]);
}

void copy_enter(struct call *call) { attach_side(call, 1, 1); }
void copy_leave(struct call *call) { attach_side(call, 0, 2); }

// ---- batches ------------------------------------------------------------------------------------

enum { OPERAND_POINTER = 1 }; // CUmemcpy3DOperandType
enum { WAIT_32 = 1, WRITE_32 = 2, WAIT_64 = 4, WRITE_64 = 5 };
static const uint64_t largest_copy_bytes = (uint64_t)1 << 30; // of pageable memory in one batch

// What there is an element of for each copy or operation of the batch: its size says which kind.
static const struct parameter *list_of(const struct call *call, unsigned *position) {
  for (*position = 0; *position < call->function->parameter_count; ++*position)
    if (parameter_of(call->function, *position)->role == ROLE_IN)
      return parameter_of(call->function, *position);
  return NULL;
}

// Addresses, addresses and sizes are the first three parameters.
static bool is_flat(const struct call *call) { return parameter_of(call->function, 0)->element_bytes == 8; }

static uint64_t count_of(const struct call *call) {
  unsigned position;
  const struct parameter *list = list_of(call, &position);
  if (list == NULL || call->arguments[position] == 0 ||
      (is_flat(call) && (call->arguments[1] == 0 || call->arguments[2] == 0)))
    return 0;
  return term_value(call, &list->count);
}

static struct rows rows_of_operand(const struct CUmemcpy3DOperand *operand, const struct CUextent3D *extent) {
  struct rows rows = {.width = extent->width, .height = extent->height, .depth = extent->depth};
  rows.address = operand->type == OPERAND_POINTER ? operand->op.ptr.ptr : 0;
  rows.pitch = operand->op.ptr.rowLength != 0 ? operand->op.ptr.rowLength : extent->width;
  rows.slice = rows.pitch * (operand->op.ptr.layerHeight != 0 ? operand->op.ptr.layerHeight : extent->height);
  return rows;
}

static void rows_at(const struct call *call, uint64_t index, struct rows *source, struct rows *destination) {
  if (is_flat(call)) {
    *source = *destination =
        (struct rows){.width = word_at(pointer_argument(call, 2), 8 * index), .height = 1, .depth = 1};
    destination->address = word_at(pointer_argument(call, 0), 8 * index);
    source->address = word_at(pointer_argument(call, 1), 8 * index);
    return;
  }
  unsigned position;
  list_of(call, &position);
  const struct CUDA_MEMCPY3D_BATCH_OP *boxes = pointer_argument(call, position), *box = &boxes[index];
  *source = rows_of_operand(&box->src, &box->extent);
  *destination = rows_of_operand(&box->dst, &box->extent);
  // With an array on the other side lengths count its elements, of unknown size; ranges are taken whole
  // anyway.
  if (source->address == 0 || destination->address == 0)
    source->width = source->height = source->depth = destination->width = destination->height =
        destination->depth = 1;
}

struct span operation_span(const union CUstreamBatchMemOpParams *given) {
  bool wide = given->operation == WAIT_64 || given->operation == WRITE_64;
  bool narrow = given->operation == WAIT_32 || given->operation == WRITE_32;
  return (struct span){wide || narrow ? given->waitValue.address : 0, wide ? 8 : 4};
}

bool batch_span(const struct call *call, uint64_t number, struct span *span) {
  uint64_t count = count_of(call);
  unsigned position;
  const struct parameter *list = list_of(call, &position);
  if (count > 0 && list->element_bytes == sizeof(union CUstreamBatchMemOpParams)) {
    const union CUstreamBatchMemOpParams *operations = pointer_argument(call, position);
    if (number < count)
      *span = operation_span(&operations[number]);
    return number < count;
  }
  if (number / 2 >= count)
    return false;
  struct rows source, destination;
  rows_at(call, number / 2, &source, &destination);
  *span = span_of(number % 2 == 0 ? &source : &destination);
  return true;
}

static bool is_pageable(const struct call *call, uint64_t index, struct rows *source) {
  struct rows destination;
  rows_at(call, index, source, &destination);
  return source->address != 0 && !is_tracked(source->address) && destination.address != 0;
}

// What a batch copies out of pageable memory is recorded as one piece: the bytes one after another, and the
// positions of the copies that they belong to.
void batch_enter(struct call *call) {
  unsigned parameter;
  list_of(call, &parameter);
  if (is_flat(call))
    parameter = 1; // the sources
  uint64_t count = count_of(call), total = 0, *positions = NULL;
  size_t pageable = 0, capacity = 0;
  uint8_t *packed = NULL;
  struct rows source;
  bool whole = true;
  for (uint64_t n = 0; whole && n < count; n++) {
    uint64_t bytes;
    if (!is_pageable(call, n, &source))
      continue;
    whole = count_bytes(&source, &bytes) && bytes <= largest_copy_bytes - total &&
            HAS_ROOM(positions, pageable, capacity);
    uint8_t *grown = whole ? realloc(packed, total + bytes + 1) : NULL;
    packed = grown != NULL ? grown : packed;
    whole = grown != NULL && gather(&source, packed + total);
    if (whole)
      positions[pageable++] = n;
    total += whole ? bytes : 0;
  }
  // Through the scratch or into the blobs file: neither needs these afterwards.
  if (whole && pageable > 0) {
    attach_unsafe(call, parameter, 1, packed, total);
    attach_unsafe(call, parameter, 2, positions, pageable * 8);
  }
  if (!whole)
    write_note(NOTE_MEMORY_SKIPPED, call->record_function, call->number,
               "pageable memory that this batch copies: more than %lu bytes, or not readable",
               largest_copy_bytes);
  free(packed);
  free(positions);
}
