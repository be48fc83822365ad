// What the copies of each range looked like, so that the next one need not write what is the same.
#include "contents/copy.h"

#include "base/fork.h"
#include "memory/memory.h"
#include "record/writer.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 1024 };

// Open addressing by base; an entry with bytes 0 is free. Entries of ranges that are gone stay until the
// table grows.
static struct copied *table;
static size_t bucket_count, used_count;

static size_t bucket_of(uint64_t base, size_t count) {
  return (size_t)((base >> 8) * 0x9e3779b97f4a7c15u >> 32) & (count - 1);
}

static struct copied *find(struct copied *in, size_t count, uint64_t base) {
  size_t place = bucket_of(base, count);
  while (in[place].bytes != 0 && in[place].base != base)
    place = (place + 1) & (count - 1);
  return &in[place];
}

static void release(struct copied *item) {
  free(item->hashes);
  free(item->holds_words);
  item->hashes = NULL;
  item->holds_words = NULL;
}

static bool grow(void) {
  size_t live = 0;
  for (size_t n = 0; n < bucket_count; n++) {
    struct range range;
    if (table[n].bytes == 0)
      continue;
    if (memory_find(table[n].base, &range) && range.serial == table[n].serial)
      live++;
    else // its place is kept until the table is made anew, so that what follows it is found
      release(&table[n]);
  }
  size_t count = FIRST_BUCKETS;
  while (count < 4 * live)
    count *= 2;
  struct copied *grown = calloc(count, sizeof *grown);
  if (grown == NULL)
    return false;
  for (size_t n = 0; n < bucket_count; n++)
    if (table[n].bytes != 0 && table[n].hashes != NULL)
      *find(grown, count, table[n].base) = table[n];
  free(table);
  table = grown;
  bucket_count = count;
  used_count = live;
  return true;
}

struct copied *copied_of(const struct range *range) {
  if (2 * (used_count + 1) > bucket_count && !grow())
    return NULL;
  struct copied *item = find(table, bucket_count, range->base);
  if (item->bytes != 0 && item->serial == range->serial && item->bytes == range->bytes &&
      item->hashes != NULL)
    return item;
  size_t count = (size_t)((range->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
  struct hash *hashes = malloc(count * sizeof *hashes);
  uint8_t *holds_words = malloc(count);
  if (hashes == NULL || holds_words == NULL) {
    free(hashes);
    free(holds_words);
    return NULL;
  }
  if (item->bytes != 0)
    release(item);
  else
    used_count++;
  *item = (struct copied){.base = range->base,
                          .bytes = range->bytes,
                          .serial = range->serial,
                          .hashes = hashes,
                          .holds_words = holds_words};
  return item;
}

// Another thread may have been in the middle of a change: what there was is left alone.
static void reset(void) {
  table = NULL;
  bucket_count = used_count = 0;
}
IN_CHILD(reset);

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
