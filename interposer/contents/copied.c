// What the copies of each range looked like, so that the next one need not write what is the same.
#include "base/handles.h"
#include "contents/copy.h"
#include "record/writer.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FEW_COPIES = 512 };

static ZERO_IN_CHILD struct handle_table table; // by the ranges' bases
static ZERO_IN_CHILD size_t known,
    looked_at; // how many there are, and were when the last ones were forgotten

// Of ranges that are gone.
static void forget_some(void) {
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(&table, &position)) != NULL;) {
    struct copied *item = row->object;
    struct range range;
    if (memory_find(item->base, &range) && range.serial == item->serial)
      continue;
    end_handle(row);
    free(item);
    known--;
  }
  looked_at = known;
}

struct copied *copied_of(const struct range *range) {
  struct handle_row *row = find_handle(&table, range->base);
  struct copied *item = row != NULL ? row->object : NULL;
  if (item != NULL && item->serial == range->serial && item->bytes == range->bytes)
    return item;
  size_t count = (size_t)((range->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
  struct copied *made = calloc(1, sizeof *made + count * (sizeof *made->hashes + sizeof *made->holds_words));
  if (made == NULL)
    return NULL;
  made->base = range->base;
  made->bytes = range->bytes;
  made->serial = range->serial;
  made->holds_words = (uint8_t *)(made->hashes + count);
  if (row != NULL) {
    row->object = made;
    free(item);
    return made;
  }
  if (known >= FEW_COPIES + 2 * looked_at)
    forget_some();
  if (!add_handle(&table, range->base, made)) {
    free(made);
    return NULL;
  }
  known++;
  return made;
}

// ---- records ------------------------------------------------------------------------------------

void begin_copy(struct copy_writer *writer, const struct range *range, enum moment moment, uint64_t call,
                bool inherits) {
  writer->range = range;
  writer->moment = moment;
  writer->call = call;
  writer->flags = COPY_FIRST | (inherits ? COPY_INHERITS : 0);
  writer->count = 0;
  writer->being_written = NULL;
}

static bool flush(struct copy_writer *writer) {
  struct record record;
  if (!begin_record(&record, RECORD_COPY, 0, writer->call, 32 + writer->count * sizeof *writer->entries))
    return false;
  put_u64(&record, writer->range->base);
  put_u64(&record, writer->range->bytes);
  put_u64(&record, writer->range->serial | (uint64_t)writer->moment << 32);
  put_u64(&record, writer->flags | (uint64_t)CHUNK_BYTES << 32);
  put_bytes(&record, writer->entries, writer->count * sizeof *writer->entries);
  end_record(&record);
  writer->flags = 0;
  writer->count = 0;
  return true;
}

bool add_entry(struct copy_writer *writer, const struct copy_entry *entry) {
  if (writer->count == COPY_ENTRIES && !flush(writer))
    return false;
  writer->entries[writer->count++] = *entry;
  return true;
}

bool end_copy(struct copy_writer *writer) {
  if (!finish_pieces(writer))
    return false;
  writer->flags |= COPY_LAST;
  return flush(writer);
}

// ---- the hash of a chunk ------------------------------------------------------------------------

// A chunk is rows of 4 KiB, a row is 256 columns of 16 bytes. Each column has a state of two words, into
// which the rows are mixed one after another by 64 x 64 -> 128 bit multiplications; the sums of the 256
// finished states are the hash. The last bytes of a chunk that fill no column are followed by zeros: chunks
// of one place have one length.
enum { COLUMNS = 256, COLUMN_BYTES = 16, ROW_BYTES = COLUMNS * COLUMN_BYTES, ROWS_AT_ONCE = 4 };

__extension__ typedef unsigned __int128 wide;

static uint64_t key[4];
static pthread_once_t key_is_drawn = PTHREAD_ONCE_INIT;

static void draw_key(void) {
  // The system call: glibc has a function for it since 2.25, and the shim loads into older ones.
  if (syscall(SYS_getrandom, key, sizeof key, GRND_NONBLOCK) != (long)sizeof key) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int n = 0; n < 4; n++)
      key[n] =
          ((uint64_t)now.tv_nsec + (uint64_t)getpid() * 1000003u + (uint64_t)n + 1) * 0x9e3779b97f4a7c15u;
  }
}

static inline uint64_t multiply(uint64_t one, uint64_t other) {
  wide product = (wide)one * other;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t finish(uint64_t state) {
  state = (state ^ state >> 32) * 0xd6e8feb86659fd93u;
  return state ^ state >> 29;
}

// `rows` is a constant: several rows at once leave a column's state in registers between them.
static inline void mix_columns(uint64_t *first, uint64_t *second, const uint8_t *data, unsigned columns,
                               unsigned rows) {
  uint64_t key_one = key[2], key_other = key[3];
  for (unsigned column = 0; column < columns; column++) {
    uint64_t one = first[column], other = second[column];
    for (unsigned row = 0; row < rows; row++) {
      uint64_t pair[2];
      memcpy(pair, data + row * (size_t)ROW_BYTES + column * (size_t)COLUMN_BYTES, COLUMN_BYTES);
      one = multiply(pair[0] ^ key_one, pair[1] ^ one);
      other = multiply(pair[1] ^ key_other, pair[0] ^ other);
    }
    first[column] = one;
    second[column] = other;
  }
}

struct hash hash_chunk(const uint8_t *data, size_t bytes) {
  pthread_once(&key_is_drawn, draw_key);
  uint64_t first[COLUMNS], second[COLUMNS];
  for (unsigned column = 0; column < COLUMNS; column++) {
    first[column] = key[0] + column * 0x9e3779b97f4a7c15u;
    second[column] = key[1] + column * 0xc2b2ae3d27d4eb4fu;
  }
  for (; bytes >= ROWS_AT_ONCE * ROW_BYTES;
       data += ROWS_AT_ONCE * ROW_BYTES, bytes -= ROWS_AT_ONCE * ROW_BYTES)
    mix_columns(first, second, data, COLUMNS, ROWS_AT_ONCE);
  for (; bytes >= ROW_BYTES; data += ROW_BYTES, bytes -= ROW_BYTES)
    mix_columns(first, second, data, COLUMNS, 1);
  unsigned whole = (unsigned)(bytes / COLUMN_BYTES);
  mix_columns(first, second, data, whole, 1);
  if (bytes % COLUMN_BYTES != 0) {
    uint8_t last[COLUMN_BYTES] = {0};
    memcpy(last, data + whole * (size_t)COLUMN_BYTES, bytes % COLUMN_BYTES);
    mix_columns(first + whole, second + whole, last, 1, 1);
  }
  struct hash hash = {{0, 0}};
  for (unsigned column = 0; column < COLUMNS; column++) {
    hash.words[0] += finish(first[column]);
    hash.words[1] += finish(second[column]);
  }
  return hash;
}
