// Copies of ranges that write only what has changed since the copy before (replay/raw/FORMAT.md, COPY).
#pragma once

#include "contents/contents.h"

enum { CHUNK_BYTES = 256 << 10, PIECE_BYTES = 8 << 20 }; // compared and written as one; read as one

static inline size_t piece_bytes(const struct range *range, uint64_t offset) {
  return range->bytes - offset < PIECE_BYTES ? (size_t)(range->bytes - offset) : PIECE_BYTES;
}

// Of a chunk. Two chunks that differ have equal hashes with a probability of about 2^-110: a keyed
// multiplicative hash whose key is drawn in each process, no cryptographic one. An accident is what it has to
// withstand.
struct hash {
  uint64_t words[2];
};
struct hash hash_chunk(const uint8_t *data, size_t bytes);

// What is known of the last whole copy of a range. Used by the thread that closed the gate.
struct copied {
  uint64_t base, bytes;
  uint32_t serial;
  bool whole;              // the hashes are those of the copy that is on file
  struct word_spans spans; // words inside these were looked for in each chunk
  uint8_t *holds_words;    // one a chunk; 1: it holds such words, or may
  struct hash hashes[];    // likewise
};
struct copied *copied_of(const struct range *range); // NULL: no memory for it

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
  struct piece *being_written; // is being written; its entries come when it is
};
void begin_copy(struct copy_writer *writer, const struct range *range, enum moment moment, uint64_t call,
                bool inherits);
bool add_entry(struct copy_writer *writer, const struct copy_entry *entry); // its blob is in the file
bool end_copy(struct copy_writer *writer); // it is whole; false: capture has stopped

// What is read at once of a range, and what of it is to be written; hashed and written while the next ones
// are read.
enum { PIECE_CHUNKS = PIECE_BYTES / CHUNK_BYTES };
struct piece_run {
  size_t offset, bytes;
  uint32_t first_entry;
};
struct piece {
  uint8_t *data; // PIECE_BYTES
  size_t first_chunk, bytes;
  struct hash hashes[PIECE_CHUNKS];
  struct copy_entry entries[PIECE_CHUNKS];
  struct piece_run runs[PIECE_CHUNKS]; // chunks that follow one another and are not zero
  uint32_t entry_count, run_count;
  int error; // errno of the writing, 0: none
};
void begin_piece(struct piece *piece, size_t first_chunk, size_t bytes);
// The hashes are there after wait_for_hashes, or when the next piece is hashed.
void hash_piece(struct piece *piece, bool more_follow);
void wait_for_hashes(void);
// Chunks that have changed, from `chunk` on, at `offset` of the piece's data.
void add_to_piece(struct piece *piece, size_t chunk, size_t offset, size_t bytes);
// The data stay as they are until the next call of either function. False: capture has stopped.
bool write_piece(struct copy_writer *writer, struct piece *piece);
bool finish_pieces(struct copy_writer *writer);
void end_copy_threads(void); // before the gate opens

// ---- contents, piece by piece -------------------------------------------------------------------

// One piece of a range, in memory that the next one overwrites; NULL, with the driver's answer, when it
// cannot be read. The gate is closed and the device idle, or the range is pinned memory.
const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result);
void write_contents(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                    enum moment moment, uint64_t call);
void write_span(const struct range *range, uint64_t offset, uint64_t bytes, enum moment moment, uint64_t call,
                uint64_t blob, uint32_t check); // the record alone; blob: UINT64_MAX for no contents
// The same, as the host sees it now: no call of the driver is made, which might wait.
const uint8_t *read_while_device_works(const struct range *range, uint64_t offset, size_t bytes);
bool push_context_of(const struct range *range); // true: pop_context has to follow

// One is read, one hashed, one written; used by the thread that closed the gate, and by those that it has
// started.
enum { PIECES = 3 };
extern struct piece pieces[PIECES];
bool has_room(struct piece *piece); // for its data; false: there is no memory
int read_piece(const struct range *range, uint64_t address, size_t bytes, uint8_t *to); // CUresult
