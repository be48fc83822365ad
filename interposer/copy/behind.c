// Writes a piece of a range while the next one is read: writing is the longer half of a copy.
//
// The thread that does it is there only while contents are copied; the gate is closed, and it is joined
// before the gate opens. It takes no signals, calls no driver and writes no records: it checks bytes and puts
// them into the blobs file. Where it cannot be had, the copying thread does the same by itself.
#define _GNU_SOURCE
#include "copy/copy.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct piece *handed_over; // NULL: the thread has nothing to do
static bool is_running, has_to_end;
static pthread_t writing;

static bool is_zero(const uint8_t *data, size_t bytes) {
  static const uint8_t zeros[4096];
  for (; bytes >= sizeof zeros; data += sizeof zeros, bytes -= sizeof zeros)
    if (memcmp(data, zeros, sizeof zeros) != 0)
      return false;
  return memcmp(data, zeros, bytes) == 0;
}

void begin_piece(struct piece *piece) { piece->entry_count = piece->run_count = 0; }

void add_to_piece(struct piece *piece, size_t chunk, size_t offset, size_t bytes) {
  struct piece_run *run = NULL;
  for (size_t end = offset + bytes; offset < end; chunk++) {
    size_t length = end - offset < CHUNK_BYTES ? end - offset : CHUNK_BYTES;
    struct copy_entry *entry = &piece->entries[piece->entry_count];
    *entry = (struct copy_entry){(uint32_t)chunk, 0, UINT64_MAX};
    if (is_zero(piece->data + offset, length)) { // left out of the file, so a run ends before it
      run = NULL;
    } else {
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

static void store(struct piece *piece) {
  piece->error = 0;
  for (struct piece_run *run = piece->runs; run < piece->runs + piece->run_count && piece->error == 0;
       run++) {
    uint64_t blob = reserve_blob(run->bytes);
    const uint8_t *data = piece->data + run->offset;
    struct copy_entry *entry = &piece->entries[run->first_entry];
    for (size_t at = 0; at < run->bytes; at += CHUNK_BYTES, entry++) {
      entry->check = crc32c(0, data + at, run->bytes - at < CHUNK_BYTES ? run->bytes - at : CHUNK_BYTES);
      entry->blob = blob + at;
    }
    piece->error = store_blob(blob, data, run->bytes);
  }
}

static void *write_pieces(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  while (!has_to_end) {
    if (handed_over == NULL) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    struct piece *piece = handed_over;
    pthread_mutex_unlock(&lock);
    store(piece);
    pthread_mutex_lock(&lock);
    handed_over = NULL;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static bool start(void) {
  if (is_running)
    return true;
  sigset_t all, before;
  sigfillset(&all);
  has_to_end = false;
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
    return false;
  is_running = pthread_create(&writing, NULL, write_pieces, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_running;
}

void end_writing_behind(void) {
  if (!is_running)
    return;
  pthread_mutex_lock(&lock);
  has_to_end = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(writing, NULL);
  is_running = false;
}

void reset_behind_after_fork(void) { // the thread is the parent's
  pthread_mutex_init(&lock, NULL);
  pthread_cond_init(&changed, NULL);
  handed_over = NULL;
  is_running = false;
}

bool finish_pieces(struct copy_writer *writer) {
  struct piece *piece = writer->behind;
  if (piece == NULL)
    return true;
  writer->behind = NULL;
  if (is_running) {
    pthread_mutex_lock(&lock);
    while (handed_over != NULL)
      pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
  }
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
  writer->behind = piece;
  if (writer->range->bytes <= PIECE_BYTES || !start()) {
    store(piece);
    return true;
  }
  pthread_mutex_lock(&lock);
  handed_over = piece;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return true;
}
