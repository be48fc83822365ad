// The hash of a chunk, by the host. device_hash.c has the same function for the device.
//
// A chunk is rows of 4 KiB, a row is 256 columns of 16 bytes. Each column has a state of two words, into
// which the rows are mixed one after another by 64 x 64 -> 128 bit multiplications; the sums of the 256
// finished states are the hash. The last bytes of a chunk that fill no column are followed by zeros: chunks
// of one place have one length.
#define _GNU_SOURCE
#include "contents/copy.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 256, COLUMN_BYTES = 16, ROW_BYTES = COLUMNS * COLUMN_BYTES, ROWS_AT_ONCE = 4 };

__extension__ typedef unsigned __int128 wide;

static struct hash_key key;
static pthread_once_t key_is_drawn = PTHREAD_ONCE_INIT;

static void draw_key(void) {
  if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int n = 0; n < 4; n++)
      key.words[n] =
          ((uint64_t)now.tv_nsec + (uint64_t)getpid() * 1000003u + (uint64_t)n + 1) * 0x9e3779b97f4a7c15u;
  }
}

const struct hash_key *hash_key(void) {
  pthread_once(&key_is_drawn, draw_key);
  return &key;
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
                               unsigned rows, const uint64_t *words) {
  uint64_t key_one = words[2], key_other = words[3];
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
  const uint64_t *words = hash_key()->words;
  uint64_t first[COLUMNS], second[COLUMNS];
  for (unsigned column = 0; column < COLUMNS; column++) {
    first[column] = words[0] + column * 0x9e3779b97f4a7c15u;
    second[column] = words[1] + column * 0xc2b2ae3d27d4eb4fu;
  }
  for (; bytes >= ROWS_AT_ONCE * ROW_BYTES;
       data += ROWS_AT_ONCE * ROW_BYTES, bytes -= ROWS_AT_ONCE * ROW_BYTES)
    mix_columns(first, second, data, COLUMNS, ROWS_AT_ONCE, words);
  for (; bytes >= ROW_BYTES; data += ROW_BYTES, bytes -= ROW_BYTES)
    mix_columns(first, second, data, COLUMNS, 1, words);
  unsigned whole = (unsigned)(bytes / COLUMN_BYTES);
  mix_columns(first, second, data, whole, 1, words);
  if (bytes % COLUMN_BYTES != 0) {
    uint8_t last[COLUMN_BYTES] = {0};
    memcpy(last, data + whole * (size_t)COLUMN_BYTES, bytes % COLUMN_BYTES);
    mix_columns(first + whole, second + whole, last, 1, 1, words);
  }
  struct hash hash = {{0, 0}};
  for (unsigned column = 0; column < COLUMNS; column++) {
    hash.words[0] += finish(first[column]);
    hash.words[1] += finish(second[column]);
  }
  return hash;
}
