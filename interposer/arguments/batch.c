// Copies in batches, and batches of waits and writes of single values. What a batch copies out of pageable
// memory is recorded as one piece: the bytes one after another, and the positions of the copies that they
// belong to.
#include "arguments/arguments.h"

#include "base/bytes.h"
#include "memory/memory.h"
#include "record/encode.h"
#include "record/writer.h"

#include <stdlib.h>
#include <string.h>

enum { OPERAND_POINTER = 1 }; // CUmemcpy3DOperandType
enum { WAIT_32 = 1, WRITE_32 = 2, WAIT_64 = 4, WRITE_64 = 5 };
static const uint64_t largest_copy_bytes = (uint64_t)1 << 30; // of pageable memory in one batch

struct operand { // CUmemcpy3DOperand
  uint32_t type;
  uint64_t pointer, row_length, layer_height;
  uint32_t hint[2];
};
struct box { // CUDA_MEMCPY3D_BATCH_OP
  struct operand source, destination;
  uint64_t width, height, depth;
  uint32_t order, flags;
};
_Static_assert(sizeof(struct operand) == 40 && sizeof(struct box) == 112, "CUDA_MEMCPY3D_BATCH_OP");

struct value_operation { // CUstreamBatchMemOpParams
  uint32_t operation;
  uint64_t address, value, flags, alias, pad;
};
_Static_assert(sizeof(struct value_operation) == 48, "CUstreamBatchMemOpParams");

// One copy of a batch: rows of memory, or a single one.
struct copy {
  uint64_t source, destination; // 0: an array
  uint64_t source_pitch, source_slice, destination_pitch, destination_slice;
  uint64_t width, height, depth;
};

static void *pointer_of(uint64_t word) { return (void *)(uintptr_t)word; }

static bool is_flat(const struct call *call) {
  return call->function->id == ID_cuMemcpyBatchAsync || call->function->id == ID_cuMemcpyBatchAsync_v2;
}

static uint64_t count_of(const struct call *call) {
  switch (call->function->id) {
  case ID_cuMemcpyBatchAsync:
  case ID_cuMemcpyBatchAsync_v2:
    return call->arguments[0] != 0 && call->arguments[1] != 0 && call->arguments[2] != 0 ? call->arguments[3]
                                                                                         : 0;
  case ID_cuMemcpy3DBatchAsync:
  case ID_cuMemcpy3DBatchAsync_v2:
    return call->arguments[1] != 0 ? call->arguments[0] : 0;
  case ID_cuMemcpy3DWithAttributesAsync:
    return call->arguments[0] != 0 ? 1 : 0;
  case ID_cuStreamBatchMemOp:
  case ID_cuStreamBatchMemOp_v2:
    return call->arguments[2] != 0 ? (uint32_t)call->arguments[1] : 0;
  default:
    return 0;
  }
}

static void place_rows(const struct operand *operand, const struct box *box, uint64_t *start, uint64_t *pitch,
                       uint64_t *slice) {
  *start = operand->type == OPERAND_POINTER ? operand->pointer : 0;
  *pitch = operand->row_length != 0 ? operand->row_length : box->width;
  *slice = *pitch * (operand->layer_height != 0 ? operand->layer_height : box->height);
}

static struct copy copy_at(const struct call *call, uint64_t index) {
  if (is_flat(call)) {
    struct copy copy = {.height = 1, .depth = 1};
    memcpy(&copy.destination, (uint8_t *)pointer_of(call->arguments[0]) + 8 * index, 8);
    memcpy(&copy.source, (uint8_t *)pointer_of(call->arguments[1]) + 8 * index, 8);
    memcpy(&copy.width, (uint8_t *)pointer_of(call->arguments[2]) + 8 * index, 8);
    return copy;
  }
  bool single = call->function->id == ID_cuMemcpy3DWithAttributesAsync;
  struct box box;
  memcpy(&box, (uint8_t *)pointer_of(call->arguments[single ? 0 : 1]) + sizeof box * index, sizeof box);
  struct copy copy = {.width = box.width, .height = box.height, .depth = box.depth};
  place_rows(&box.source, &box, &copy.source, &copy.source_pitch, &copy.source_slice);
  place_rows(&box.destination, &box, &copy.destination, &copy.destination_pitch, &copy.destination_slice);
  // With an array on the other side lengths count its elements, whose size is not known here; ranges are
  // taken whole anyway.
  if (copy.source == 0 || copy.destination == 0)
    copy.width = copy.height = copy.depth = 1;
  return copy;
}

bool batch_span(const struct call *call, uint64_t number, struct span *span) {
  uint64_t count = count_of(call);
  if (call->function->id == ID_cuStreamBatchMemOp || call->function->id == ID_cuStreamBatchMemOp_v2) {
    if (number >= count)
      return false;
    struct value_operation operation;
    memcpy(&operation, (uint8_t *)pointer_of(call->arguments[2]) + sizeof operation * number,
           sizeof operation);
    bool wide = operation.operation == WAIT_64 || operation.operation == WRITE_64;
    bool narrow = operation.operation == WAIT_32 || operation.operation == WRITE_32;
    *span = (struct span){wide || narrow ? operation.address : 0, wide ? 8 : 4};
    return true;
  }
  if (number / 2 >= count)
    return false;
  struct copy copy = copy_at(call, number / 2);
  bool source = number % 2 == 0;
  uint64_t start = source ? copy.source : copy.destination;
  uint64_t pitch = source ? copy.source_pitch : copy.destination_pitch;
  uint64_t slice = source ? copy.source_slice : copy.destination_slice;
  bool empty = copy.width == 0 || copy.height == 0 || copy.depth == 0;
  *span = (struct span){empty ? 0 : start, (copy.depth - 1) * slice + (copy.height - 1) * pitch + copy.width};
  return true;
}

static bool is_pageable(uint64_t address) {
  struct range range;
  return address != 0 && !memory_find(address, &range);
}

static bool gather(const struct copy *copy, uint8_t *to) {
  for (uint64_t z = 0; z < copy->depth; z++)
    for (uint64_t y = 0; y < copy->height; y++)
      if (!read_memory(to + (z * copy->height + y) * copy->width,
                       pointer_of(copy->source + z * copy->source_slice + y * copy->source_pitch),
                       copy->width))
        return false;
  return true;
}

void batch_enter(struct call *call) {
  unsigned parameter = is_flat(call) ? 1 : call->function->id == ID_cuMemcpy3DWithAttributesAsync ? 0 : 1;
  uint64_t count = count_of(call), total = 0, pageable = 0;
  for (uint64_t n = 0; n < count; n++) {
    struct copy copy = copy_at(call, n);
    uint64_t bytes = 0;
    if (!is_pageable(copy.source) || copy.destination == 0)
      continue;
    if (__builtin_mul_overflow(copy.width, copy.height, &bytes) ||
        __builtin_mul_overflow(bytes, copy.depth, &bytes) || __builtin_add_overflow(total, bytes, &total))
      return;
    pageable++;
  }
  if (pageable == 0)
    return;
  uint8_t *bytes = total <= largest_copy_bytes ? malloc(total + pageable * 8 + 8) : NULL;
  if (bytes == NULL) {
    write_note(NOTE_MEMORY_SKIPPED, call->record_function, call->number,
               "%llu bytes of pageable memory that this batch copies", (unsigned long long)total);
    return;
  }
  uint8_t *positions = bytes + (total + 7) / 8 * 8;
  uint64_t at = 0, place = 0;
  bool whole = true;
  for (uint64_t n = 0; whole && n < count; n++) {
    struct copy copy = copy_at(call, n);
    if (!is_pageable(copy.source) || copy.destination == 0)
      continue;
    whole = gather(&copy, bytes + at);
    at += copy.width * copy.height * copy.depth;
    memcpy(positions + 8 * place++, &n, 8);
  }
  // Through the scratch or into the blobs file: neither needs `bytes` afterwards.
  if (whole) {
    attach_unsafe(call, parameter, 1, bytes, total);
    attach_unsafe(call, parameter, 2, positions, place * 8);
  }
  free(bytes);
}
