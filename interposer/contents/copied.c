// What the copies of each range looked like, so that the next one need not write what is the same.
#include "base/handles.h"
#include "contents/copy.h"

#include <linux/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FEW_COPIES = 512 };

static ZERO_IN_CHILD struct handle_table table; // by the ranges' bases
static ZERO_IN_CHILD size_t known,
    looked_at; // how many there are, and were when the last ones were forgotten

static size_t chunks_of(uint64_t bytes) { return (size_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES); }

static size_t bytes_for(size_t chunks) {
  const struct copied *item;
  return sizeof *item + chunks * (sizeof *item->hashes + 2 * sizeof *item->may_reach + sizeof *item->blobs +
                                  sizeof *item->since);
}

static void free_copied(struct copied *item) {
  give_room(bytes_for(chunks_of(item->bytes)));
  free(item);
}

static void forget_copied(struct copied *item) {
  for (uint64_t at = 0; at < item->bytes; at += CHUNK_BYTES)
    chunk_is_superseded(item->blobs[at / CHUNK_BYTES],
                        item->bytes - at < CHUNK_BYTES ? (size_t)(item->bytes - at) : CHUNK_BYTES,
                        item->since[at / CHUNK_BYTES]);
  free_copied(item);
}

// Of ranges that are gone.
static void forget_some(void) {
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(&table, &position)) != NULL;) {
    struct copied *item = row->object;
    struct range range;
    if (memory_find(item->base, &range) && range.serial == item->serial)
      continue;
    end_handle(row);
    forget_copied(item);
    known--;
  }
  looked_at = known;
}

const struct copied *copied_before(const struct range *range) {
  struct handle_row *row = find_handle(&table, range->base);
  const struct copied *item = row != NULL ? row->object : NULL;
  bool is_same = item != NULL && item->serial == range->serial && item->bytes == range->bytes;
  return is_same ? item : NULL;
}

struct copied *copied_of(const struct range *range) {
  struct handle_row *row = find_handle(&table, range->base);
  struct copied *item = row != NULL ? row->object : NULL;
  if (item != NULL && item->serial == range->serial && item->bytes == range->bytes)
    return item;
  size_t count = chunks_of(range->bytes);
  struct copied *made;
  made = room_for(bytes_for(count));
  if (made == NULL)
    return NULL;
  *made =
      (struct copied){range->base, range->bytes, range->serial, .blobs = (uint64_t *)(made->hashes + count)};
  made->since = (uint32_t *)(made->blobs + count);
  made->may_reach = (uint8_t *)(made->since + count);
  made->nonfinite = made->may_reach + count;
  memset(made->blobs, 0xff, count * sizeof *made->blobs);
  if (row != NULL) {
    row->object = made;
    forget_copied(item);
    return made;
  }
  if (known >= FEW_COPIES + 2 * looked_at)
    forget_some();
  if (!add_handle(&table, range->base, made)) {
    free_copied(made);
    return NULL;
  }
  known++;
  return made;
}

// ---- the hash of a chunk ------------------------------------------------------------------------

// A chunk is rows of 64 bytes, a row is four columns of 16. Each column has a state of two words, into which
// the rows are mixed one after another by 64 x 64 -> 128 bit multiplications; the sums of the finished states
// are the hash. The last bytes of a chunk that fill no row are followed by zeros: one length for a place.
enum { COLUMNS = 4, COLUMN_BYTES = 16, ROW_BYTES = COLUMNS * COLUMN_BYTES };

__extension__ typedef unsigned __int128 wide;

static uint64_t key[4];
static pthread_once_t key_is_drawn = PTHREAD_ONCE_INIT;

static void draw_key(void) {
  // The system call: glibc has a function for it since 2.25, and the shim loads into older ones.
  if (syscall(SYS_getrandom, key, sizeof key, GRND_NONBLOCK) != (long)sizeof key)
    for (int n = 0; n < 4; n++)
      key[n] = (clock_ns(CLOCK_REALTIME) + (uint64_t)n) * 0x9e3779b97f4a7c15u;
}

static inline uint64_t multiply(uint64_t one, uint64_t other) {
  wide product = (wide)one * other;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t finish(uint64_t state) {
  state = (state ^ state >> 32) * 0xd6e8feb86659fd93u;
  return state ^ state >> 29;
}

static inline void mix_row(struct hash columns[COLUMNS], const uint8_t *row, uint64_t one, uint64_t other) {
#pragma GCC unroll 4
  for (unsigned n = 0; n < COLUMNS; n++) {
    uint64_t first = word_at(row, n * COLUMN_BYTES), second = word_at(row, n * COLUMN_BYTES + 8);
    columns[n].words[0] = multiply(first ^ one, second ^ columns[n].words[0]);
    columns[n].words[1] = multiply(second ^ other, first ^ columns[n].words[1]);
  }
}

struct hash hash_chunk(const uint8_t *data, size_t bytes) {
  pthread_once(&key_is_drawn, draw_key);
  struct hash columns[COLUMNS], hash = {{0, 0}};
  uint64_t one = key[2], other = key[3];
  for (unsigned n = 0; n < COLUMNS; n++)
    columns[n] = (struct hash){{key[0] + n * 0x9e3779b97f4a7c15u, key[1] + n * 0xc2b2ae3d27d4eb4fu}};
  for (; bytes >= ROW_BYTES; data += ROW_BYTES, bytes -= ROW_BYTES)
    mix_row(columns, data, one, other);
  if (bytes > 0) {
    uint8_t last[ROW_BYTES] = {0};
    memcpy(last, data, bytes);
    mix_row(columns, last, one, other);
  }
  for (unsigned n = 0; n < COLUMNS; n++) {
    hash.words[0] += finish(columns[n].words[0]);
    hash.words[1] += finish(columns[n].words[1]);
  }
  return hash;
}
