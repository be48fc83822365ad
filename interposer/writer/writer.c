// Records that survive the process being killed at any instruction. The layout is replay/capture/FORMAT.md.
//
// Records stand one after another in a shared mapping of the file, whose pages belong to the kernel: what was
// stored is in the file whatever happens to the process. A record's payload is written first and its size
// last, and the next one starts only then (under the lock), so the file always is a sequence of whole records
// followed by zeros.
#define _GNU_SOURCE
#include "writer/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  WINDOW_BYTES = 16 << 20,
  HEADER_BYTES = 32,
  // Kept free in every window for the note that says why capture stopped.
  RESERVE_BYTES = 4096,
  // Pages are asked for in this many bytes at a time: one by one, their faults cost more than the records.
  POPULATE_BYTES = 256 << 10,
  FORMAT_VERSION = 2,
};

struct file_header {
  char magic[8];
  uint32_t version, pid;
  uint64_t start_time_ns, monotonic_ns;
  uint8_t zero[32];
};
_Static_assert(sizeof(struct file_header) == 64, "FORMAT.md");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_open;
static char *directory_path;
static char name_suffix[64]; // <pid>.bin, or <pid>.<n>.bin
static struct file calls_file = {-1, 0, 0}, blobs_file = {-1, 0, 0}, held_file = {-1, 0, 0};
static uint8_t *window;
static uint64_t window_offset;
static size_t used, populated;
static _Atomic uint64_t blobs_end;

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int open_capture_folder(void) {
  return directory_path != NULL ? open(directory_path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

const char *blobs_file_name(void) {
  static char name[sizeof name_suffix + 8];
  snprintf(name, sizeof name, "blobs.%s", name_suffix);
  return name;
}

bool writer_is_open(void) { return atomic_load_explicit(&is_open, memory_order_relaxed); }

// ---- opening ------------------------------------------------------------------------------------

bool create_beside_calls(struct file *file, const char *stem) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/%s.%s", directory_path, stem, name_suffix) >= sizeof path) {
    errno = ENAMETOOLONG;
    return false;
  }
  return create_file(file, path);
}

// A process that called exec keeps its pid, and pids come again: the first free number is taken.
static bool create_pair(const char *directory) {
  char path[PATH_MAX];
  for (unsigned n = 0; n < 10000; n++) {
    char suffix[32] = "";
    if (n > 0)
      snprintf(suffix, sizeof suffix, ".%u", n);
    if ((size_t)snprintf(path, sizeof path, "%s/calls.%d%s.bin", directory, (int)getpid(), suffix) >=
        sizeof path) {
      errno = ENAMETOOLONG;
      return false;
    }
    if (!create_file(&calls_file, path)) {
      if (errno == EEXIST)
        continue;
      return false;
    }
    snprintf(name_suffix, sizeof name_suffix, "%d%s.bin", (int)getpid(), suffix);
    return create_beside_calls(&blobs_file, "blobs");
  }
  return false;
}

bool open_writer(const char *directory, uint32_t forked_from) {
  (void)forked_from;
  // The application may change its working directory before it ends.
  directory_path = realpath(directory, NULL);
  if (directory_path != NULL && hold_directory(&held_file, directory_path) && create_pair(directory_path) &&
      (window = map_file(&calls_file, 0, WINDOW_BYTES)) != NULL) {
    struct file_header header = {.magic = "RCAPCALL", .version = FORMAT_VERSION, .pid = (uint32_t)getpid()};
    header.start_time_ns = clock_ns(CLOCK_REALTIME);
    header.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    memcpy(window, &header, sizeof header);
    window_offset = 0;
    used = sizeof header;
    populated = 0;
    atomic_store(&blobs_end, 0);
    atomic_store(&is_open, true);
    return true;
  }
  // There is no file that could hold the reason.
  fprintf(stderr, "replay: cannot write to %s (%s); nothing is captured\n", directory, strerror(errno));
  close_file(&calls_file);
  close_file(&blobs_file);
  close_file(&held_file);
  return false;
}

// ---- records ------------------------------------------------------------------------------------

static void fill_header(uint8_t *start, enum record_kind kind, uint16_t function, uint64_t call) {
  uint64_t time_ns = clock_ns(CLOCK_MONOTONIC);
  uint16_t kind_word = (uint16_t)kind;
  uint32_t thread = current_thread()->id;
  memcpy(start + 4, &kind_word, 2);
  memcpy(start + 6, &function, 2);
  memcpy(start + 8, &thread, 4);
  memcpy(start + 16, &call, 8);
  memcpy(start + 24, &time_ns, 8);
}

static void commit(uint8_t *start, size_t bytes) {
  uint32_t check = crc32c(0, start + 16, bytes - 16);
  memcpy(start + 12, &check, 4);
  atomic_store_explicit((_Atomic uint32_t *)(void *)start, (uint32_t)bytes, memory_order_release);
  used += bytes;
}

static void put_text_record(enum record_kind kind, enum note code, const char *text) {
  size_t length = strlen(text);
  size_t bytes = HEADER_BYTES + 8 + (length + 7) / 8 * 8;
  if (window == NULL || bytes > WINDOW_BYTES - used)
    return;
  uint8_t *start = window + used;
  fill_header(start, kind, 0, 0);
  uint32_t words[2] = {(uint32_t)code, (uint32_t)length};
  memcpy(start + HEADER_BYTES, words, 8);
  memcpy(start + HEADER_BYTES + 8, text, length);
  commit(start, bytes);
}

static void put_end_record(uint32_t reason) {
  if (window == NULL || HEADER_BYTES + 8 > WINDOW_BYTES - used)
    return;
  uint64_t word = reason;
  fill_header(window + used, RECORD_END, 0, last_call_number());
  memcpy(window + used + HEADER_BYTES, &word, 8);
  commit(window + used, HEADER_BYTES + 8);
}

// With the lock held. Everything passes through from here on.
static void stop_with_lock(const char *reason) {
  if (!atomic_exchange(&is_open, false))
    return;
  put_text_record(RECORD_NOTE, NOTE_CAPTURE_STOPPED, reason);
  put_end_record(1);
  atomic_store(&mode, MODE_DONE);
}

void stop_capture(const char *format, ...) {
  char reason[512];
  va_list values;
  va_start(values, format);
  vsnprintf(reason, sizeof reason, format, values);
  va_end(values);
  pthread_mutex_lock(&lock);
  stop_with_lock(reason);
  pthread_mutex_unlock(&lock);
}

static bool next_window(void) {
  uint8_t *next = map_file(&calls_file, window_offset + WINDOW_BYTES, WINDOW_BYTES);
  if (next == NULL) {
    char reason[256];
    snprintf(reason, sizeof reason, "the records could not grow: %s", strerror(errno));
    stop_with_lock(reason);
    return false;
  }
  uint32_t rest = (uint32_t)(WINDOW_BYTES - used);
  atomic_store_explicit((_Atomic uint32_t *)(void *)(window + used), rest, memory_order_release); // FILLER
  munmap(window, WINDOW_BYTES);
  window = next;
  window_offset += WINDOW_BYTES;
  used = populated = 0;
  return true;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14; older kernels refuse it, and the pages come one by one
#endif

static void populate(size_t end) {
  while (populated < end) {
    int error = errno;
    madvise(window + populated, POPULATE_BYTES, MADV_POPULATE_WRITE);
    errno = error;
    populated += POPULATE_BYTES;
  }
}

bool begin_record(struct record *record, enum record_kind kind, uint16_t function, uint64_t call,
                  size_t bytes) {
  size_t whole = HEADER_BYTES + (bytes + 7) / 8 * 8;
  pthread_mutex_lock(&lock);
  if (!writer_is_open() || whole > WINDOW_BYTES - RESERVE_BYTES ||
      (whole > WINDOW_BYTES - RESERVE_BYTES - used && !next_window())) {
    pthread_mutex_unlock(&lock);
    return false;
  }
  if (UNLIKELY(used + whole > populated))
    populate(used + whole);
  record->start = window + used;
  record->cursor = record->start + HEADER_BYTES;
  fill_header(record->start, kind, function, call);
  return true;
}

void put_bytes(struct record *record, const void *data, size_t bytes) {
  memcpy(record->cursor, data, bytes);
  record->cursor += (bytes + 7) / 8 * 8; // the rest is zero: the file was
}

void end_record(struct record *record) {
  commit(record->start, (size_t)(record->cursor - record->start));
  pthread_mutex_unlock(&lock);
}

static void put_note(enum note code, uint16_t function, uint64_t call, const char *text, size_t bytes) {
  struct record record;
  if (!begin_record(&record, RECORD_NOTE, function, call, 8 + bytes))
    return;
  put_u64(&record, (uint32_t)code | (uint64_t)bytes << 32);
  put_bytes(&record, text, bytes);
  end_record(&record);
}

void write_note(enum note code, uint16_t function, uint64_t call, const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  put_note(code, function, call, text,
           length < 0                     ? 0
           : (size_t)length < sizeof text ? (size_t)length
                                          : sizeof text - 1);
}

// Written at every launch that the selection matches, so without the cost of printf.
void write_matched_note(uint16_t function, uint64_t call, uint64_t ordinal, const char *name) {
  char text[1024], *at = text + 20;
  size_t length = strlen(name);
  if (length > sizeof text - 24)
    length = sizeof text - 24;
  memcpy(text + 21, name, length);
  text[20] = ' ';
  do {
    *--at = (char)('0' + ordinal % 10);
    ordinal /= 10;
  } while (ordinal > 0);
  put_note(NOTE_LAUNCH_MATCHED, function, call, at, (size_t)(text + 21 - at) + length);
}

void write_process_text(const char *text, size_t bytes) {
  struct record record;
  if (!begin_record(&record, RECORD_PROCESS, 0, 0, bytes))
    return;
  put_bytes(&record, text, bytes);
  end_record(&record);
}

// ---- blobs --------------------------------------------------------------------------------------

uint64_t reserve_blob(uint64_t bytes) { return atomic_fetch_add(&blobs_end, (bytes + 63) / 64 * 64); }

bool write_blob(uint64_t offset, const void *data, size_t bytes) {
  if (!writer_is_open())
    return false;
  if (write_file(&blobs_file, offset, data, bytes))
    return true;
  stop_capture("contents could not be written: %s", strerror(errno));
  return false;
}

// ---- ending -------------------------------------------------------------------------------------

void close_writer(void) {
  pthread_mutex_lock(&lock);
  if (atomic_exchange(&is_open, false))
    put_end_record(0);
  if (window != NULL) {
    munmap(window, WINDOW_BYTES);
    window = NULL;
    if (file_is_ours(&calls_file) && ftruncate(calls_file.descriptor, (off_t)(window_offset + used)) != 0)
      errno = 0; // longer than needed, and still whole
    close_file(&calls_file);
    close_file(&blobs_file);
    release_directory(&held_file, directory_path);
  }
  pthread_mutex_unlock(&lock);
}

// The files stay the parent's; dropping the mapping and the descriptors leaves them as they are.
void abandon_writer_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  if (window != NULL)
    munmap(window, WINDOW_BYTES);
  window = NULL;
  atomic_store(&is_open, false);
  close_file(&calls_file);
  close_file(&blobs_file);
  close_file(&held_file);
}
