// Records that survive the process being killed at any instruction. The layout is replay/raw/FORMAT.md.
//
//   begin_call        end_call       notes, copies of memory, process text
//       |                 |                       |
//   encode_enter     encode_leave                 |
//       +-----------------+-----------------------+--- what is longer than INLINE_BYTES ---+
//                         |                                                                |
//           begin_record: lock, make_room                                 reserve_blob, write_blob: no lock
//           put_u64, put_bytes                                                             |
//           end_record: size last, unlock                                                  |
//                         |                                                                v
//   calls file: [ header | half 0 | half 1 | log ... ]                        blobs file: [ ... ]
//                 places    present   full: change_halves appends it to the log
//
// The halves are a shared mapping, whose pages belong to the kernel: what was stored is in the file whatever
// happens to the process. A record's payload is written first, then the end after it, and its size last; the
// next one starts only then. `places` says which half holds something and where in the log that belongs, so
// that every record is in the file at every moment. Pages that come with a write cost a fraction of what
// pages of a mapping cost.
#include "record/writer.h"

#include "record/call.h"
#include "record/files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  HALF_BYTES = 256 << 10,
  HALVES_OFFSET = 4096,
  LOG_OFFSET = HALVES_OFFSET + 2 * HALF_BYTES,
  HEADER_BYTES = 32,
  // Kept free in every half for the note that says why capture stopped.
  RESERVE_BYTES = 4096,
  MAX_RECORD_BYTES = HALF_BYTES - RESERVE_BYTES,
  FORMAT_VERSION = 4,
};

struct file_header {
  char magic[8];
  uint32_t version, pid;
  uint64_t start_time_ns, monotonic_ns;
  // Where in the file the contents of each half belong; 0: it holds nothing that is not in the log.
  _Atomic uint64_t places[2];
  uint32_t half_bytes;
  _Atomic uint32_t asked;              // how often `replay trigger` has asked for a snapshot
  _Atomic uint64_t recording_since_ns; // CLOCK_MONOTONIC; 0: no launch that is watched is under way
};
_Static_assert(sizeof(struct file_header) == 64, "FORMAT.md");
_Static_assert(sizeof(struct file_header) + sizeof(struct watch_counts) <= HALVES_OFFSET, "FORMAT.md");
_Static_assert(MAX_ATTACHMENTS *(INLINE_BYTES + 64) + 1024 < MAX_RECORD_BYTES, "call.h");

static ZERO_IN_CHILD atomic_bool taken; // the lock
static atomic_bool is_open;
static char *directory_path;
static char name_suffix[64]; // <pid>.bin, or <pid>.<n>.bin
static struct file calls_file = NO_FILE, blobs_file = NO_FILE;
static uint8_t *mapped;         // the header and the halves
static unsigned present;        // the half that takes records
static size_t used;             // of it
static bool populated[2];       // the pages of the halves
static uint32_t window_in_file; // which one is open by the notes that were written; 0: none is
static _Atomic uint64_t blobs_end;

static struct file_header *file_header(void) { return (struct file_header *)(void *)mapped; }
static uint8_t *half(unsigned n) { return mapped + HALVES_OFFSET + (size_t)n * HALF_BYTES; }

int open_capture_folder(void) {
  return directory_path != NULL ? open(directory_path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

const char *blobs_file_name(void) {
  static char name[sizeof name_suffix + 8];
  snprintf(name, sizeof name, "blobs.%s", name_suffix);
  return name;
}

bool writer_is_open(void) { return atomic_load_explicit(&is_open, memory_order_relaxed); }

// ---- the lock -----------------------------------------------------------------------------------

enum { TRIES_BEFORE_PAUSE = 32 };

// Not a mutex: a thread that waits for one sleeps in the kernel, and waking it costs more than several
// records. Threads that wait for long, as for a half that is written, look again after a pause.
static void take_lock(void) {
  for (unsigned tries = 0; atomic_exchange_explicit(&taken, true, memory_order_acquire);)
    while (atomic_load_explicit(&taken, memory_order_relaxed))
      if (tries++ >= TRIES_BEFORE_PAUSE)
        pause_briefly();
}

static void give_lock(void) { atomic_store_explicit(&taken, false, memory_order_release); }

// The mapping is there as long as the lock is held.
void tell_recording(uint64_t since_ns) {
  take_lock();
  if (mapped != NULL)
    atomic_store(&file_header()->recording_since_ns, since_ns);
  give_lock();
}

void tell_counts(const struct watch_counts *counts) {
  take_lock();
  if (mapped != NULL)
    memcpy(mapped + sizeof(struct file_header), counts, sizeof *counts);
  give_lock();
}

uint32_t times_asked(void) {
  take_lock();
  uint32_t asked = mapped != NULL ? atomic_load(&file_header()->asked) : 0;
  give_lock();
  return asked;
}

// ---- opening ------------------------------------------------------------------------------------

bool create_beside_calls(struct file *file, const char *stem) {
  char path[PATH_MAX];
  return path_in(path, directory_path, "%s.%s", stem, name_suffix) && create_file(file, path);
}

// A process that called exec keeps its pid, and pids come again: the first free number is taken.
static bool create_pair(void) {
  errno = EEXIST;
  for (unsigned n = 0; n < 10000 && errno == EEXIST; n++) {
    int length = snprintf(name_suffix, sizeof name_suffix, "%d", (int)getpid());
    if (n > 0)
      length += snprintf(name_suffix + length, sizeof name_suffix - (size_t)length, ".%u", n);
    snprintf(name_suffix + length, sizeof name_suffix - (size_t)length, ".bin");
    if (create_beside_calls(&calls_file, "calls"))
      return create_beside_calls(&blobs_file, "blobs");
  }
  return false;
}

bool open_writer(const char *directory) {
  // The application may change its working directory before it ends.
  directory_path = realpath(directory, NULL);
  if (directory_path != NULL && create_pair() && (mapped = map_file(&calls_file, 0, LOG_OFFSET)) != NULL) {
    struct file_header *header = file_header();
    header->version = FORMAT_VERSION;
    header->pid = (uint32_t)getpid();
    header->start_time_ns = clock_ns(CLOCK_REALTIME);
    header->monotonic_ns = now_ns();
    header->half_bytes = HALF_BYTES;
    atomic_store(&header->places[0], LOG_OFFSET);
    memcpy(header->magic, "RCAPCALL", sizeof header->magic);
    present = 0;
    used = 0;
    populated[0] = populated[1] = false;
    window_in_file = 0;
    atomic_store(&blobs_end, 0);
    atomic_store(&is_open, true);
    return true;
  }
  // There is no file that could hold the reason.
  fprintf(stderr, "replay: cannot write to %s (%s); nothing is captured\n", directory, strerror(errno));
  close_file(&calls_file);
  close_file(&blobs_file);
  return false;
}

// ---- records ------------------------------------------------------------------------------------

static void fill_header(uint8_t *start, enum record_kind kind, uint16_t function, uint64_t call) {
  uint64_t time_ns = now_ns();
  uint16_t kind_word = (uint16_t)kind;
  uint32_t thread = current_thread()->id;
  memcpy(start + 4, &kind_word, 2);
  memcpy(start + 6, &function, 2);
  memcpy(start + 8, &thread, 4);
  memcpy(start + 16, &call, 8);
  memcpy(start + 24, &time_ns, 8);
}

static void set_size(uint8_t *start, uint32_t bytes) {
  atomic_store_explicit((_Atomic uint32_t *)(void *)start, bytes, memory_order_release);
}

static void commit(uint8_t *start, size_t bytes) {
  uint32_t check = crc32c(0, start + 16, bytes - 16);
  memcpy(start + 12, &check, 4);
  set_size(start + bytes, 0); // what was there before the half was used again
  set_size(start, (uint32_t)bytes);
  used += bytes;
}

// With the lock held; there is room for it.
static void put_last_record(enum record_kind kind, uint64_t call, uint64_t word, const char *text) {
  size_t length = strlen(text), bytes = HEADER_BYTES + 8 + (length + 7) / 8 * 8;
  if (mapped == NULL || bytes + 8 > HALF_BYTES - used)
    return;
  struct record record = {.start = half(present) + used, .cursor = half(present) + used + HEADER_BYTES};
  fill_header(record.start, kind, 0, call);
  put_u64(&record, word);
  put_bytes(&record, text, length);
  commit(record.start, bytes);
}

static void put_end_record(uint64_t reason) { put_last_record(RECORD_END, last_call_number(), reason, ""); }

// With the lock held. Everything passes through from here on.
static void stop_with_lock(const char *reason) {
  if (!atomic_exchange(&is_open, false))
    return;
  put_last_record(RECORD_NOTE, 0, NOTE_CAPTURE_STOPPED | (uint64_t)strlen(reason) << 32, reason);
  put_end_record(1);
  atomic_store(&mode, MODE_DONE);
}

void stop_capture(const char *format, ...) {
  char reason[512];
  va_list values;
  va_start(values, format);
  vsnprintf(reason, sizeof reason, format, values);
  va_end(values);
  take_lock();
  stop_with_lock(reason);
  give_lock();
}

static const char *why(int error) {
  return error == EBADF ? "the application closed its file, which cannot be opened again" : strerror(error);
}

static void stop_growing(void) {
  char reason[256];
  snprintf(reason, sizeof reason, "the records could not grow: %s", why(errno));
  stop_with_lock(reason);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14; older kernels refuse it, and the pages come one by one
#endif

// Pages are asked for at once: one by one, their faults cost more than the records.
static void populate(void) {
  KEEP_ERRNO;
  madvise(half(present), HALF_BYTES, MADV_POPULATE_WRITE);
  populated[present] = true;
}

// The half that was full stays in use where it cannot be written; the other one has room for the reason.
static bool change_halves(void) {
  struct file_header *header = file_header();
  unsigned full = present;
  size_t bytes = used;
  uint64_t place = atomic_load(&header->places[full]);
  set_size(half(1 - full), 0);
  atomic_store_explicit(&header->places[1 - full], place + bytes, memory_order_release);
  present = 1 - full;
  used = 0;
  if (!write_file(&calls_file, place, half(full), bytes)) {
    stop_growing();
    return false;
  }
  atomic_store_explicit(&header->places[full], 0, memory_order_release);
  return true;
}

static bool make_room(struct record *record, size_t whole) {
  if (!writer_is_open() || whole > MAX_RECORD_BYTES || (whole > MAX_RECORD_BYTES - used && !change_halves()))
    return false;
  if (UNLIKELY(!populated[present]))
    populate();
  record->start = half(present) + used;
  return true;
}

bool begin_record_in(uint32_t window, struct record *record, enum record_kind kind, uint16_t function,
                     uint64_t call, size_t bytes) {
  take_lock();
  if ((window != 0 && window != window_in_file) || !make_room(record, HEADER_BYTES + (bytes + 7) / 8 * 8)) {
    give_lock();
    return false;
  }
  record->cursor = record->start + HEADER_BYTES;
  fill_header(record->start, kind, function, call);
  return true;
}

void put_bytes(struct record *record, const void *data, size_t bytes) {
  size_t padded = (bytes + 7) / 8 * 8;
  if (bytes != padded)
    memset(record->cursor + padded - 8, 0, 8);
  memcpy(record->cursor, data, bytes);
  record->cursor += padded;
}

void end_record(struct record *record) {
  commit(record->start, (size_t)(record->cursor - record->start));
  give_lock();
}

void put_note(enum note code, uint16_t function, uint64_t call, const char *text, size_t bytes) {
  struct record record;
  if (!begin_record(&record, RECORD_NOTE, function, call, 8 + bytes))
    return;
  if (code == NOTE_WINDOW_OPEN)
    window_in_file = atomic_load(&window_number);
  else if (code == NOTE_WINDOW_CLOSE)
    window_in_file = 0;
  put_u64(&record, (uint32_t)code | (uint64_t)bytes << 32);
  put_bytes(&record, text, bytes);
  end_record(&record);
}

// ---- blobs --------------------------------------------------------------------------------------

uint64_t reserve_blob(uint64_t bytes) { return atomic_fetch_add(&blobs_end, (bytes + 63) / 64 * 64); }

int store_blob(uint64_t offset, const void *data, size_t bytes) {
  return !writer_is_open() || write_file(&blobs_file, offset, data, bytes) ? 0 : errno;
}

bool write_blob(uint64_t offset, const void *data, size_t bytes) {
  int error = store_blob(offset, data, bytes);
  if (error != 0)
    stop_capture("contents could not be written: %s", why(error));
  return writer_is_open();
}

// ---- ending -------------------------------------------------------------------------------------

// What a half holds goes into the log in its order; the other half may be in use if the log could not grow.
static bool end_log(void) {
  struct file_header *header = file_header();
  uint64_t end = atomic_load(&header->places[present]);
  bool whole = atomic_load(&header->places[1 - present]) == 0 &&
               write_file(&calls_file, end, half(present), used) &&
               ftruncate(calls_file.descriptor, (off_t)(end + used)) == 0;
  if (whole)
    atomic_store(&header->places[present], 0);
  return whole;
}

static void close_files(void) {
  if (atomic_exchange(&is_open, false))
    put_end_record(0);
  if (mapped == NULL)
    return;
  bool empty = end_log();
  munmap(mapped, LOG_OFFSET);
  mapped = NULL;
  if (empty)
    fallocate(calls_file.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HALVES_OFFSET,
              LOG_OFFSET - HALVES_OFFSET);
  close_file(&calls_file);
  close_file(&blobs_file);
}

void close_writer(void) {
  KEEP_ERRNO;
  take_lock();
  close_files();
  give_lock();
}

// The files stay the parent's; dropping the mapping and the descriptors leaves them as they are.
static void abandon(void) {
  if (mapped != NULL)
    munmap(mapped, LOG_OFFSET);
  mapped = NULL;
  atomic_store(&is_open, false);
  close_file(&calls_file);
  close_file(&blobs_file);
}
IN_CHILD(abandon);
