// Copies of ranges that write only what has changed since the copy before (replay/raw/FORMAT.md, COPY).
#pragma once

#include "contents/contents.h"

enum { CHUNK_BYTES = 256 << 10, PIECE_BYTES = 8 << 20 }; // compared and written as one; read as one

static inline size_t piece_bytes(const struct range *range, uint64_t offset) {
  return range->bytes - offset < PIECE_BYTES ? (size_t)(range->bytes - offset) : PIECE_BYTES;
}

// Of a chunk. Two chunks that differ have equal hashes with a probability of about 2^-100: a keyed
// multiplicative hash whose key is drawn in each process, no cryptographic one: against accidents.
struct hash {
  uint64_t words[2];
};
struct hash hash_chunk(const uint8_t *data, size_t bytes);

// What is known of the last whole copy of a range. Used by the thread that closed the gate.
struct copied {
  uint64_t base, bytes;
  uint32_t serial;
  bool whole;         // the hashes are those of the copy that is on file
  uint64_t spans;     // memory_spans when the chunks were looked through
  uint64_t calls;     // touching_calls when it was read
  uint8_t *may_reach; // one a chunk; 0: it was looked through, and no word of it reaches anything
  uint64_t *blobs;    // likewise: where it is on file, UINT64_MAX: nowhere; and the window that wrote it
  uint32_t *since;
  uint8_t *nonfinite;    // likewise: nonfinite_in, with --when nan
  uint8_t had, appeared; // nonfinite.c
  struct hash hashes[];  // likewise
};
struct copied *copied_of(const struct range *range);           // NULL: no memory for it
const struct copied *copied_before(const struct range *range); // NULL: never

// What is read at once of a range, and what of it was written.
enum { PIECE_CHUNKS = PIECE_BYTES / CHUNK_BYTES };
struct copy_entry { // as in the record
  uint32_t chunk, check;
  uint64_t blob;
};
struct piece {
  uint8_t *data; // PIECE_BYTES
  size_t first_chunk, bytes;
  struct copy_entry entries[PIECE_CHUNKS];
  uint32_t entry_count; // of chunks that have changed
  int error;            // errno of the writing, 0: none
};
// One is read, one compared and written; used by the thread that closed the gate, and the one it started.
enum { PIECES = 2 };
extern struct piece pieces[PIECES];
bool have_room(void); // the pieces, for their data; false: there is no memory

// Of a chunk that has changed: its place on file may be used again, once no window needs it (ring.c).
void chunk_is_superseded(uint64_t blob, size_t bytes, uint32_t since);
uint64_t reserve_chunk(size_t bytes);
void windows_are_kept(void); // the present one, and those of the ring before it

// With --when nan: what a chunk that was read holds, around the copy of a range.
uint8_t nonfinite_in(const uint8_t *data, size_t bytes);
void note_nonfinite(struct copied *copied, size_t chunk, const uint8_t *data, size_t bytes, bool after);
void begin_nonfinite(struct copied *copied, enum moment moment);
void end_nonfinite(struct copied *copied, enum moment moment);
uint8_t nonfinite_of_type(uint8_t bits, unsigned type); // those of the bits that are of numbers of this type
// What the range at an address held before a launch and holds since, of numbers of a type: 0, or bits. False:
// it was not read.
typedef bool nonfinite_at(uint64_t address, unsigned type, uint8_t *had, uint8_t *appeared,
                          const void *state);
nonfinite_at nonfinite_of; // of the window

bool store_chunk(struct piece *piece, size_t at, size_t bytes); // with its entry; false: piece->error

// Writes one copy: of each piece that has changed its bytes, and then a record.
struct copy_writer {
  const struct range *range;
  enum moment moment;
  uint64_t call;
  uint32_t flags;      // of the next record
  struct piece *piece; // the last one that was handed over, whose record comes next
};
// Has `work` done of the piece, by another thread unless it is the last; its data stay until then.
void hand_over(struct copy_writer *writer, struct piece *piece, bool is_last,
               void (*work)(struct copy_writer *writer, struct piece *piece));
void wait_for_piece(void);
// Of the piece that was handed over; with COPY_LAST the copy is whole. False: capture has stopped.
bool finish_piece(struct copy_writer *writer, uint32_t flags);

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

int read_piece(const struct range *range, uint64_t address, size_t bytes, uint8_t *to); // CUresult
