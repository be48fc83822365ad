// Blocks of allocations, where an allocator inside the application has said which are in use (docs/hints.md):
// each is a range, and the allocation that it lies in, its segment, is none. Reach then stops at the borders
// of blocks instead of those of what the driver allocated.
#include "memory/ranges.h"

// Allocations of which an allocator has said which blocks are in use; the blocks are in `ranges` instead.
static ZERO_IN_CHILD struct range_list segments;
static ZERO_IN_CHILD atomic_size_t segment_count;

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

bool memory_find_allocation(uint64_t address, struct range *found) {
  HOLD(ranges_lock);
  const struct range *segment = segment_at(address);
  return copy_found(segment != NULL ? segment : range_at(address), found);
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

static void memory_block_lives(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || address + bytes < address)
    return;
  HOLD(ranges_lock);
  struct range *segment = segment_at(address), *range = range_at(address);
  // What is no allocation, is one block as a whole, or was read as a whole already, stays as it is.
  if (segment == NULL && range != NULL && range->state == RANGE_UNTOUCHED && range->kind != RANGE_GLOBAL &&
      bytes < range->bytes && list_append(&segments, range)) {
    segment = &segments.items[segments.count - 1];
    atomic_store(&segment_count, segments.count);
    remove_range(range);
  }
  if (segment != NULL)
    cover(segment, address, bytes);
}

static void memory_block_ends(uint64_t address) {
  HOLD(ranges_lock);
  struct range *range = range_at(address);
  // What the window has touched is read once more at its end.
  if (segment_at(address) != NULL && range != NULL && range->base == address &&
      range->state == RANGE_UNTOUCHED)
    remove_range(range);
}

bool memory_has_blocks(void) { return atomic_load(&segment_count) > 0; }

void memory_cover(uint64_t address, uint64_t bytes) {
  HOLD(ranges_lock);
  const struct range *segment = segment_at(address);
  if (segment != NULL)
    cover(segment, address, bytes);
}

// Words that point between blocks: the stretch around each counts as a block. Returns whether there are any.
static bool memory_cover_targets(const void *data, size_t bytes, bool only_ask) {
  bool found = false;
  HOLD(ranges_lock);
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word = word_at(data, n);
    const struct range *segment = segment_at(word);
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
  return found;
}

// ---- what the allocator calls -------------------------------------------------------------------

static _Atomic(void *) refresher;

static bool is_wanted(void) { return current_mode() != MODE_INERT && current_mode() != MODE_DONE; }

EXPORT void replay_hint_block_lives(uint64_t address, uint64_t bytes) {
  KEEP_ERRNO;
  if (is_wanted())
    memory_block_lives(address, bytes);
}

EXPORT void replay_hint_block_ends(uint64_t address) {
  KEEP_ERRNO;
  if (is_wanted())
    memory_block_ends(address);
}

EXPORT void replay_hint_refresh_with(void (*refresh)(void)) { atomic_store(&refresher, (void *)refresh); }

// In the thread that makes the call, before the gate is closed: the refresher may wait for an interpreter's
// lock that a thread at the gate holds. What it asks of the driver is not the application's.
void refresh_hints(void) {
  void (*refresh)(void) = (void (*)(void))atomic_load(&refresher);
  UNSEEN;
  if (refresh != NULL)
    refresh();
}

// A kernel may be given a block that no hint has named yet, which is then inside a segment and in no block.
void hints_for_launch(const struct call *call) {
  if (call->function->effect != EFFECT_LAUNCH || call->packed == NULL ||
      !memory_cover_targets(call->packed, call->packed_bytes, true))
    return;
  refresh_hints();
  memory_cover_targets(call->packed, call->packed_bytes, false);
}
