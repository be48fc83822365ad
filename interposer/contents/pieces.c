// What is done of a piece of a range by other threads while the next one is read: hashing it, and writing it,
// which is the longer half of a copy.
//
// These two threads are there only while contents are copied; the gate is closed, and they are joined before
// the gate opens. They take no signals, call no driver and write no records: one hashes, the other puts bytes
// into the blobs file. Where a thread cannot be had, the copying thread does the same by itself.
#define _GNU_SOURCE
#include "contents/copy.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fork.h"
#include "memory/memory.h"
#include "record/writer.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

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
  uint64_t begin_ns = now_ns();
  for (size_t at = 0, chunk = 0; at < piece->bytes; at += CHUNK_BYTES, chunk++)
    piece->hashes[chunk] =
        hash_chunk(piece->data + at, piece->bytes - at < CHUNK_BYTES ? piece->bytes - at : CHUNK_BYTES);
  piece->hash_ns = now_ns() - begin_ns;
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
  pthread_mutex_lock(&lock);
  worker->handed_over = piece;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void wait_for(struct worker *worker) {
  if (!worker->is_running)
    return;
  pthread_mutex_lock(&lock);
  while (worker->handed_over != NULL)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
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
