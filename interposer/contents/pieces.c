// What is done of a piece of a range while the next one is read: hashing it, comparing it with the copy
// before and writing it, which is the longer half of a copy.
//
// Of a range that is longer than a piece a thread of its own does it of each. It is joined before the gate
// opens; it takes no signals, calls no driver and writes no records. Where a thread cannot be had, the
// copying thread does the same by itself.
#include "contents/copy.h"
#include "driver/real.h"
#include "memory/arrays.h"
#include "record/writer.h"

#include <signal.h>
#include <sys/mman.h>

// ---- reading ------------------------------------------------------------------------------------

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
  return ASK("cuMemcpyDtoH_v2", word(to), address, bytes);
}

bool have_room(void) {
  if (pieces[0].data == NULL && take_room(PIECES * PIECE_BYTES)) {
    void *mapped =
        mmap(NULL, PIECES * PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int n = 0; n < PIECES && mapped != MAP_FAILED; n++)
      pieces[n].data = (uint8_t *)mapped + (size_t)n * PIECE_BYTES;
  }
  return pieces[0].data != NULL;
}

const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result) {
  *result =
      have_room() ? read_piece(range, range->base + offset, bytes, pieces[0].data) : ERROR_OUT_OF_MEMORY;
  return *result == SUCCESS ? pieces[0].data : NULL;
}

const uint8_t *read_while_device_works(const struct range *range, uint64_t offset, size_t bytes) {
  const void *from = (const void *)(uintptr_t)(range->base + offset);
  return have_room() && read_memory(pieces[0].data, from, bytes) ? pieces[0].data : NULL;
}

bool push_context_of(const struct range *range) {
  return range->kind != RANGE_HOST && push_context(range->context);
}

// ---- what is done of a piece --------------------------------------------------------------------

bool store_chunk(struct piece *piece, size_t at, size_t bytes) {
  struct copy_entry *entry = &piece->entries[piece->entry_count++];
  bool zero = is_zero(piece->data + at, bytes); // left out of the file
  entry->chunk = (uint32_t)(piece->first_chunk + at / CHUNK_BYTES);
  entry->check = zero ? 0 : crc32c(0, piece->data + at, bytes);
  entry->blob = zero ? UINT64_MAX : reserve_chunk(bytes);
  piece->error = zero ? 0 : store_blob(entry->blob, piece->data + at, bytes);
  return piece->error == 0;
}

static ZERO_IN_CHILD struct { // in a child of fork the thread is the parent's
  void (*work)(struct copy_writer *writer, struct piece *piece);
  struct copy_writer *writer;
  bool is_running;
  pthread_t thread;
} worker;

static void *work(void *piece) {
  worker.work(worker.writer, piece);
  return NULL;
}

void hand_over(struct copy_writer *writer, struct piece *piece, bool is_last,
               void (*what)(struct copy_writer *writer, struct piece *piece)) {
  sigset_t all, before;
  writer->piece = piece;
  worker.work = what;
  worker.writer = writer;
  sigfillset(&all);
  if (!is_last && pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
    worker.is_running = pthread_create(&worker.thread, NULL, work, piece) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  if (!worker.is_running)
    work(piece);
}

void wait_for_piece(void) {
  if (worker.is_running)
    pthread_join(worker.thread, NULL);
  worker.is_running = false;
}

// ---- the records of a copy ----------------------------------------------------------------------

bool finish_piece(struct copy_writer *writer, uint32_t flags) {
  struct record record;
  struct piece *piece = writer->piece;
  wait_for_piece();
  if ((piece == NULL || piece->entry_count == 0) && flags == 0)
    return true;
  writer->piece = NULL;
  if (piece != NULL && piece->error != 0) {
    stop_capture("contents could not be written: %s", strerror(piece->error));
    return false;
  }
  size_t bytes = piece != NULL ? piece->entry_count * sizeof *piece->entries : 0;
  if (!begin_record(&record, RECORD_COPY, 0, writer->call, 32 + bytes))
    return false;
  put_u64(&record, writer->range->base);
  put_u64(&record, writer->range->bytes);
  put_u64(&record, writer->range->serial | (uint64_t)writer->moment << 32);
  put_u64(&record, writer->flags | flags | (uint64_t)CHUNK_BYTES << 32);
  if (piece != NULL)
    put_bytes(&record, piece->entries, bytes);
  end_record(&record);
  writer->flags = 0;
  return true;
}
