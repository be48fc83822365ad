// Writing a capture: records, blobs and notes (replay/raw/FORMAT.md).
#pragma once

#include "base/base.h"
#include "generated/vocabulary.h"

struct record {
  uint8_t *start, *cursor;
};

bool open_writer(const char *directory); // false: nothing can be written
bool writer_is_open(void);
int open_capture_folder(void); // a descriptor for paths below it; -1: cannot be had
const char *blobs_file_name(void);
// Between begin and end the writer's lock is held. `bytes` counts the payload. False: capture has stopped; or
// another window than `window` is open by the notes in the file (0: whichever is).
bool begin_record_in(uint32_t window, struct record *record, enum record_kind kind, uint16_t function,
                     uint64_t call, size_t bytes);
static inline bool begin_record(struct record *record, enum record_kind kind, uint16_t function,
                                uint64_t call, size_t bytes) {
  return begin_record_in(0, record, kind, function, call, bytes);
}
void end_record(struct record *record);
void put_bytes(struct record *record, const void *data, size_t bytes); // padded to 8
static inline void put_u64(struct record *record, uint64_t value) {
  __builtin_memcpy(record->cursor, &value, 8);
  record->cursor += 8;
}
void put_note(enum note code, uint16_t function, uint64_t call, const char *text, size_t bytes);
void write_note(enum note code, uint16_t function, uint64_t call, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Words of the file that others read and write while the process runs (replay/raw/FORMAT.md).
void tell_recording(uint64_t since_ns); // a launch that is watched is under way; 0: none is
uint32_t times_asked(void);             // by `replay trigger`
struct watch_counts {                   // of a capture that watches
  uint32_t state;                       // 0: none, 1: it watches, 2: it has ended
  uint32_t hits;
  uint64_t launches, in_stream, waited, paused, beyond_bandwidth, image_bytes, memory_bytes, beyond_memory,
      on_device;
};
void tell_counts(const struct watch_counts *counts);
void write_process_text(const char *text, size_t bytes);
// Room for `bytes` in the blobs file, 64-byte aligned.
uint64_t reserve_blob(uint64_t bytes);
bool write_blob(uint64_t offset, const void *data, size_t bytes); // false: capture has stopped
int store_blob(uint64_t offset, const void *data, size_t bytes);  // errno, 0: stored, or capture has stopped
void stop_capture(const char *format, ...) __attribute__((format(printf, 1, 2)));
void close_writer(void); // at a clean end

// ---- what the capture says about its process, its driver and itself -----------------------------

void describe_process(uint32_t forked_from); // 0: by no fork that the shim saw
void describe_driver(void);
void describe_perturbation(void);
size_t without_home(char *path); // writes the home folder as ~; gives the length
