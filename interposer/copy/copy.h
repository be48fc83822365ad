// Copies of ranges that write only what has changed since the copy before (replay/capture/FORMAT.md, COPY).
#pragma once

#include "shim.h"

uint64_t now_ns(void); // CLOCK_MONOTONIC

enum { CHUNK_BYTES = 256 << 10 }; // what is compared and written as one; a chunk of a snapshot

// Of a chunk. Two chunks that differ have equal hashes with a probability of about 2^-110: a keyed
// multiplicative hash whose key is drawn in each process, no cryptographic one. An accident is what it has to
// withstand.
struct hash {
  uint64_t words[2];
};
struct hash_key {
  uint64_t words[4];
};
extern const struct hash_key *hash_key(void);
struct hash hash_chunk(const uint8_t *data, size_t bytes);

// What is known of the last whole copy of a range. Used by the thread that closed the gate.
struct copied {
  uint64_t base, bytes;
  uint32_t serial;
  bool whole;              // the hashes are those of the copy that is on file
  struct word_spans spans; // words inside these were looked for in each chunk
  struct hash *hashes;     // one a chunk
  uint8_t *holds_words;    // likewise; 1: the chunk holds such words, or may
};
struct copied *copied_of(const struct range *range); // NULL: no memory for it
void reset_copied_after_fork(void);

// Writes the records of one copy.
struct copy_entry {
  uint32_t chunk, check;
  uint64_t blob;
};
enum { COPY_ENTRIES = 256 };
struct copy_writer {
  const struct range *range;
  enum moment moment;
  uint64_t call;
  uint32_t flags; // of the next record
  uint32_t count;
  struct copy_entry entries[COPY_ENTRIES];
};
void begin_copy(struct copy_writer *writer, const struct range *range, enum moment moment, uint64_t call,
                bool inherits);
// Contents of chunks that follow one another, from `chunk` on; zeros are written as such. False: capture has
// stopped.
bool write_chunks(struct copy_writer *writer, size_t chunk, const uint8_t *data, size_t bytes);
void end_copy(struct copy_writer *writer); // it is whole

// Hashes of all chunks of a device range, made by a kernel of the shim in the range's context, which is
// current. The device is idle. False: to be copied and hashed by the host. `call`: for a note.
bool can_hash_on_device(const struct range *range);
bool hash_on_device(const struct range *range, struct hash *hashes, uint64_t call);
void host_look_took(uint64_t ns,
                    uint64_t bytes);       // copying, hashing and searching device memory, 1 MiB or more
void device_hash_is_wrong(uint64_t call);  // it will not be used any more
void end_device_hashing(uint64_t context); // of a context that is about to end; 0: of all
void reset_device_hash_after_fork(void);
