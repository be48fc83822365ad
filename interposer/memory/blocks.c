// Blocks of allocations, where an allocator inside the application has said which are in use (hints.c): each
// is a range, and the allocation that it lies in, its segment, is none.
#include "memory/blocks.h"

#include "memory/ranges.h"

#include <string.h>

// Allocations of which an allocator has said which blocks are in use; the blocks are in `ranges` instead.
static struct range_list segments;
static atomic_size_t segment_count;

struct range *segment_at(uint64_t address) {
  for (size_t n = 0; n < segments.count; n++)
    if (address - segments.items[n].base < segments.items[n].bytes)
      return &segments.items[n];
  return NULL;
}

void remove_segment(struct range *segment) {
  remove_ranges_in(segment->base, segment->bytes);
  *segment = segments.items[--segments.count];
  atomic_store(&segment_count, segments.count);
}

void remove_segments(enum list_filter filter, uint64_t value, uint64_t bytes) {
  for (size_t n = segments.count; n > 0; n--)
    if (passes_filter(&segments.items[n - 1], filter, value, bytes))
      remove_segment(&segments.items[n - 1]);
}

void forget_segments(void) {
  segments.count = 0;
  atomic_store(&segment_count, 0);
}

bool memory_find_allocation(uint64_t address, struct range *found) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = segment_at(address);
  if (range == NULL)
    range = range_at(address);
  if (range != NULL)
    *found = *range;
  pthread_mutex_unlock(&ranges_lock);
  return range != NULL;
}

// The stretches of [address, address + bytes) that are in no range become ranges of the segment.
static void cover(const struct range *segment, uint64_t address, uint64_t bytes) {
  uint64_t at = address > segment->base ? address : segment->base;
  uint64_t end =
      address + bytes < segment->base + segment->bytes ? address + bytes : segment->base + segment->bytes;
  while (at < end) {
    size_t position = position_of(at);
    const struct range *next = position < ranges.count ? &ranges.items[position] : NULL;
    if (next != NULL && next->base <= at) {
      at = next->base + next->bytes;
      continue;
    }
    uint64_t stop = next != NULL && next->base < end ? next->base : end;
    struct range block = *segment;
    block.base = at;
    block.bytes = stop - at;
    if (!insert_range(position, block))
      return;
    at = stop;
  }
  more_is_untouched();
}

void memory_block_lives(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || address + bytes < address)
    return;
  pthread_mutex_lock(&ranges_lock);
  struct range *segment = segment_at(address), *range = range_at(address);
  // What is no allocation, is one block as a whole, or was read as a whole already, stays as it is.
  if (segment == NULL && range != NULL && range->state == RANGE_UNTOUCHED && range->kind != RANGE_GLOBAL &&
      bytes < range->bytes && list_append(&segments, range)) {
    segment = &segments.items[segments.count - 1];
    atomic_store(&segment_count, segments.count);
    remove_ranges((size_t)(range - ranges.items), 1);
  }
  if (segment != NULL)
    cover(segment, address, bytes);
  pthread_mutex_unlock(&ranges_lock);
}

void memory_block_ends(uint64_t address) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = range_at(address);
  // What the window has touched is read once more at its end.
  if (segment_at(address) != NULL && range != NULL && range->base == address &&
      range->state == RANGE_UNTOUCHED)
    remove_ranges((size_t)(range - ranges.items), 1);
  pthread_mutex_unlock(&ranges_lock);
}

bool memory_has_blocks(void) { return atomic_load(&segment_count) > 0; }

void memory_cover(uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&ranges_lock);
  struct range *segment = segment_at(address);
  if (segment != NULL)
    cover(segment, address, bytes);
  pthread_mutex_unlock(&ranges_lock);
}

bool memory_cover_targets(const void *data, size_t bytes, bool only_ask) {
  bool found = false;
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word;
    memcpy(&word, (const uint8_t *)data + n, 8);
    struct range *segment = segment_at(word);
    if (segment == NULL || range_at(word) != NULL)
      continue;
    found = true;
    size_t position = position_of(word);
    uint64_t begin = segment->base, end = segment->base + segment->bytes;
    if (position > 0 && ranges.items[position - 1].base + ranges.items[position - 1].bytes > begin)
      begin = ranges.items[position - 1].base + ranges.items[position - 1].bytes;
    if (position < ranges.count && ranges.items[position].base < end)
      end = ranges.items[position].base;
    if (!only_ask)
      cover(segment, begin, end - begin);
  }
  pthread_mutex_unlock(&ranges_lock);
  return found;
}
