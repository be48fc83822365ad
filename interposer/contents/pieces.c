// What is done of a piece of a range by other threads while the next one is read: hashing it, and writing it,
// which is the longer half of a copy.
//
// These two threads are there only while contents are copied; the gate is closed, and they are joined before
// the gate opens. They take no signals, call no driver and write no records: one hashes, the other puts bytes
// into the blobs file. Where a thread cannot be had, the copying thread does the same by itself.
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

// ---- other threads ------------------------------------------------------------------------------

struct worker {
  void (*const work)(struct piece *);
  struct piece *handed_over; // NULL: the thread has nothing to do
  bool is_running, has_to_end;
  pthread_t thread;
};
static void hash_chunks(struct piece *piece);
static void store(struct piece *piece);
static struct worker hashing = {.work = hash_chunks}, writing = {.work = store};

static MUTEX(lock);
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void begin_piece(struct piece *piece, size_t first_chunk, size_t bytes) {
  piece->first_chunk = first_chunk;
  piece->bytes = bytes;
  piece->entry_count = piece->run_count = 0;
}

void add_to_piece(struct piece *piece, size_t chunk, size_t offset, size_t bytes) {
  struct piece_run *run = NULL;
  for (size_t end = offset + bytes; offset < end; chunk++) {
    size_t length = end - offset < CHUNK_BYTES ? end - offset : CHUNK_BYTES;
    struct copy_entry *entry = &piece->entries[piece->entry_count];
    *entry = (struct copy_entry){(uint32_t)chunk, 0, UINT64_MAX};
    if (is_zero(piece->data + offset, length)) { // left out of the file, so a run ends before it
      run = NULL;
    } else {
      entry->check = crc32c(0, piece->data + offset, length);
      if (run == NULL) {
        run = &piece->runs[piece->run_count++];
        *run = (struct piece_run){offset, 0, piece->entry_count};
      }
      run->bytes += length;
    }
    piece->entry_count++;
    offset += length;
  }
}

static void hash_chunks(struct piece *piece) {
  for (size_t at = 0, chunk = 0; at < piece->bytes; at += CHUNK_BYTES, chunk++)
    piece->hashes[chunk] =
        hash_chunk(piece->data + at, piece->bytes - at < CHUNK_BYTES ? piece->bytes - at : CHUNK_BYTES);
}

static void store(struct piece *piece) {
  piece->error = 0;
  for (struct piece_run *run = piece->runs; run < piece->runs + piece->run_count && piece->error == 0;
       run++) {
    uint64_t blob = reserve_blob(run->bytes);
    struct copy_entry *entry = &piece->entries[run->first_entry];
    for (size_t at = 0; at < run->bytes; at += CHUNK_BYTES, entry++)
      entry->blob = blob + at;
    piece->error = store_blob(blob, piece->data + run->offset, run->bytes);
  }
}

static void *work(void *argument) {
  struct worker *worker = argument;
  pthread_mutex_lock(&lock);
  while (!worker->has_to_end) {
    struct piece *piece = worker->handed_over;
    if (piece == NULL) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    pthread_mutex_unlock(&lock);
    worker->work(piece);
    pthread_mutex_lock(&lock);
    worker->handed_over = NULL;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static bool start(struct worker *worker) {
  if (worker->is_running)
    return true;
  sigset_t all, before;
  sigfillset(&all);
  worker->has_to_end = false;
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
    return false;
  worker->is_running = pthread_create(&worker->thread, NULL, work, worker) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return worker->is_running;
}

static void end(struct worker *worker) {
  if (!worker->is_running)
    return;
  pthread_mutex_lock(&lock);
  worker->has_to_end = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(worker->thread, NULL);
  worker->is_running = false;
}

static void hand_over(struct worker *worker, struct piece *piece, bool alone) {
  if (alone || !start(worker)) {
    worker->work(piece);
    return;
  }
  HOLD(lock);
  worker->handed_over = piece;
  pthread_cond_broadcast(&changed);
}

static void wait_for(struct worker *worker) {
  if (!worker->is_running)
    return;
  HOLD(lock);
  while (worker->handed_over != NULL)
    pthread_cond_wait(&changed, &lock);
}

void end_copy_threads(void) {
  end(&hashing);
  end(&writing);
}

static void reset(void) { // the threads are the parent's
  pthread_cond_init(&changed, NULL);
  hashing.handed_over = writing.handed_over = NULL;
  hashing.is_running = writing.is_running = false;
}
IN_CHILD(reset);

void hash_piece(struct piece *piece, bool more_follow) {
  wait_for_hashes();
  hand_over(&hashing, piece, !more_follow);
}

void wait_for_hashes(void) { wait_for(&hashing); }

bool finish_pieces(struct copy_writer *writer) {
  struct piece *piece = writer->being_written;
  if (piece == NULL)
    return true;
  writer->being_written = NULL;
  wait_for(&writing);
  if (piece->error != 0) {
    stop_capture("contents could not be written: %s", strerror(piece->error));
    return false;
  }
  for (uint32_t n = 0; n < piece->entry_count; n++)
    if (!add_entry(writer, &piece->entries[n]))
      return false;
  return true;
}

bool write_piece(struct copy_writer *writer, struct piece *piece) {
  if (!finish_pieces(writer))
    return false;
  writer->being_written = piece;
  hand_over(&writing, piece, writer->range->bytes <= PIECE_BYTES);
  return true;
}
