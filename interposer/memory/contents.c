// Reads contents of memory into the blobs file: before the first touch inside a window, and at its end.
#define _GNU_SOURCE
#include "shim.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

atomic_bool host_memory_is_pending;
static uint8_t *staging; // used by the thread that closed the gate
static uint64_t bytes_copied;
struct perturbation perturbation;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void describe_perturbation(void) {
  char text[256];
  int length = snprintf(text, sizeof text,
                        "perturbation.waits=%llu\nperturbation.wait_ns=%llu\n"
                        "perturbation.copied_bytes=%llu\nperturbation.copy_ns=%llu\n",
                        (unsigned long long)atomic_load(&perturbation.waits),
                        (unsigned long long)atomic_load(&perturbation.wait_ns),
                        (unsigned long long)atomic_load(&perturbation.copied_bytes),
                        (unsigned long long)atomic_load(&perturbation.copy_ns));
  write_process_text(text, (size_t)length);
}

static bool is_zero(const uint8_t *data, size_t bytes) {
  static const uint8_t zeros[4096];
  for (; bytes >= sizeof zeros; data += sizeof zeros, bytes -= sizeof zeros)
    if (memcmp(data, zeros, sizeof zeros) != 0)
      return false;
  return memcmp(data, zeros, bytes) == 0;
}

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

static int read_piece(const struct range *range, uint64_t address, size_t bytes) {
  // Pinned and registered host memory is read where it is; the device is idle.
  if (range->kind == RANGE_HOST)
    return read_memory(staging, (const void *)(uintptr_t)address, bytes) ? SUCCESS : ERROR_INVALID_VALUE;
  if (range->kind == RANGE_ARRAY)
    return read_array(range->base, address - range->base, bytes, staging);
  int (*copy)(void *, uint64_t, size_t) = driver_symbol("cuMemcpyDtoH_v2");
  return copy != NULL ? copy(staging, address, bytes) : ERROR_SYMBOL_NOT_FOUND;
}

static bool has_staging(void) {
  if (staging == NULL) {
    void *mapped = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped != MAP_FAILED)
      staging = mapped;
  }
  return staging != NULL;
}

const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result) {
  *result = has_staging() ? read_piece(range, range->base + offset, bytes) : ERROR_OUT_OF_MEMORY;
  return *result == SUCCESS ? staging : NULL;
}

bool push_context_of(const struct range *range) {
  int (*push)(uint64_t) = driver_symbol("cuCtxPushCurrent_v2");
  return range->kind != RANGE_HOST && range->context != 0 && range->context != current_context() &&
         push != NULL && driver_symbol("cuCtxPopCurrent_v2") != NULL && push(range->context) == SUCCESS;
}

void pop_context(void) {
  uint64_t popped;
  int (*pop)(uint64_t *) = driver_symbol("cuCtxPopCurrent_v2");
  pop(&popped);
}

static void copy_range(const struct range *range, enum moment moment, uint64_t call, bool follow,
                       struct range_list *reached) {
  if (selection.max_bytes != 0 && bytes_copied + range->bytes > selection.max_bytes) {
    write_note(NOTE_MEMORY_SKIPPED, 0, call, "%llu bytes at 0x%llx: the limit of %llu bytes is reached",
               (unsigned long long)range->bytes, (unsigned long long)range->base,
               (unsigned long long)selection.max_bytes);
    memory_mark(range->base, range->serial, RANGE_LOST);
    return;
  }
  bool pushed = push_context_of(range);
  for (uint64_t offset = 0; offset < range->bytes && writer_is_open(); offset += PIECE_BYTES) {
    size_t bytes = range->bytes - offset < PIECE_BYTES ? (size_t)(range->bytes - offset) : PIECE_BYTES;
    int result = read_piece(range, range->base + offset, bytes);
    if (result != SUCCESS) {
      write_note(NOTE_MEMORY_NOT_READ, 0, call, "%llu bytes at 0x%llx: the driver answered %d",
                 (unsigned long long)range->bytes, (unsigned long long)range->base, result);
      if (moment == MOMENT_BEFORE)
        memory_mark(range->base, range->serial, RANGE_LOST);
      break;
    }
    bytes_copied += bytes;
    if (range->host_visible)
      host_contents_were_read(range, offset, staging, bytes, moment, call);
    write_contents(range, offset, staging, bytes, moment, call);
    if (follow && range->kind != RANGE_ARRAY) // texels are no pointers
      memory_reach(staging, bytes, reached);
  }
  if (pushed)
    pop_context();
}

void copy_contents(struct thread *thread, struct range_list *list, enum moment moment, uint64_t call,
                   bool follow) {
  (void)thread;
  const char *problem = has_staging() ? NULL : "no memory for the copy";
  if (problem == NULL) {
    uint64_t begin_ns = now_ns();
    gate_is_waiting_for_device(true);
    if (device_becomes_idle(list, &problem))
      atomic_store(&host_memory_is_pending, false);
    gate_is_waiting_for_device(false);
    atomic_fetch_add(&perturbation.waits, 1);
    atomic_fetch_add(&perturbation.wait_ns, now_ns() - begin_ns);
  }
  // A kernel with a wrong address may reach no memory at all; the replay has to know that it failed here,
  // too.
  if (problem != NULL && list->count == 0 && moment == MOMENT_AFTER)
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "no allocation that could be read: %s", problem);
  uint64_t begin_ns = now_ns(), bytes_before = bytes_copied;
  // The list grows while it is read: what the contents point to is copied as well.
  for (size_t n = 0; n < list->count; n++) {
    struct range range = list->items[n];
    if (problem == NULL) {
      copy_range(&range, moment, call, follow, list);
      continue;
    }
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "%llu bytes at 0x%llx: %s", (unsigned long long)range.bytes,
               (unsigned long long)range.base, problem);
    if (moment == MOMENT_BEFORE)
      memory_mark(range.base, range.serial, RANGE_LOST);
  }
  atomic_fetch_add(&perturbation.copied_bytes, bytes_copied - bytes_before);
  atomic_fetch_add(&perturbation.copy_ns, now_ns() - begin_ns);
}
