#define _GNU_SOURCE
#include "contents/reading.h"

#include "base/bytes.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "memory/arrays.h"
#include "memory/memory.h"
#include "record/writer.h"

#include <sys/mman.h>

struct piece pieces[PIECES];

void write_contents(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                    enum moment moment, uint64_t call) {
  uint64_t blob = UINT64_MAX;
  uint32_t check = 0;
  if (!is_zero(data, bytes)) {
    blob = reserve_blob(bytes);
    check = crc32c(0, data, bytes);
    if (!write_blob(blob, data, bytes))
      return;
  }
  write_span(range, offset, bytes, moment, call, blob, check);
}

void write_span(const struct range *range, uint64_t offset, uint64_t bytes, enum moment moment, uint64_t call,
                uint64_t blob, uint32_t check) {
  struct record record;
  if (!begin_record(&record, RECORD_BLOB, 0, call, 48))
    return;
  put_u64(&record, range->base + offset);
  put_u64(&record, bytes);
  put_u64(&record, blob);
  put_u64(&record, range->base);
  put_u64(&record, range->bytes);
  put_u64(&record, (uint32_t)moment | (uint64_t)check << 32);
  end_record(&record);
}

int read_piece(const struct range *range, uint64_t address, size_t bytes, uint8_t *to) {
  // Pinned and registered host memory is read where it is; the device is idle.
  if (range->kind == RANGE_HOST)
    return read_memory(to, (const void *)(uintptr_t)address, bytes) ? SUCCESS : ERROR_INVALID_VALUE;
  if (range->kind == RANGE_ARRAY)
    return read_array(range->base, address - range->base, bytes, to);
  int (*copy)(void *, uint64_t, size_t) = driver_symbol("cuMemcpyDtoH_v2");
  return copy != NULL ? copy(to, address, bytes) : ERROR_SYMBOL_NOT_FOUND;
}

bool has_room(struct piece *piece) {
  if (piece->data == NULL) {
    void *mapped = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped != MAP_FAILED)
      piece->data = mapped;
  }
  return piece->data != NULL;
}

const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result) {
  uint8_t *to = has_room(&pieces[0]) ? pieces[0].data : NULL;
  *result = to != NULL ? read_piece(range, range->base + offset, bytes, to) : ERROR_OUT_OF_MEMORY;
  return *result == SUCCESS ? to : NULL;
}

const uint8_t *read_while_device_works(const struct range *range, uint64_t offset, size_t bytes) {
  uint8_t *to = has_room(&pieces[0]) ? pieces[0].data : NULL;
  return to != NULL && read_memory(to, (const void *)(uintptr_t)(range->base + offset), bytes) ? to : NULL;
}

bool push_context_of(const struct range *range) {
  return range->kind != RANGE_HOST && push_context(range->context);
}
