// Which ranges of memory exist, and which of them the open window has touched.
//
// Ranges are in one array sorted by address, under a mutex that is never held across a call of the driver.
#include "memory/memory.h"

#include "base/fork.h"
#include "memory/ranges.h"

#include <stdlib.h>
#include <string.h>

MUTEX(ranges_lock);
struct range_list ranges;
static uint32_t last_serial;
static _Atomic uint64_t state_number = 1; // see memory_state
// How many ranges are untouched, module variables apart: every launch asks whether there are any.
static atomic_size_t untouched_globals, untouched_others;
static atomic_size_t touched_on_host; // pinned and managed ranges that the device may be writing to
_Atomic uint64_t lowest_address = UINT64_MAX, highest_address;

static void count_range(const struct range *range, int change) {
  if (range->state == RANGE_UNTOUCHED)
    atomic_fetch_add(range->kind == RANGE_GLOBAL ? &untouched_globals : &untouched_others, (size_t)change);
  else if (range->host_visible)
    atomic_fetch_add(&touched_on_host, (size_t)change);
}

static void widen_addresses(uint64_t base, uint64_t bytes) {
  if (base >= ARRAY_ADDRESSES)
    return;
  if (base < atomic_load(&lowest_address))
    atomic_store(&lowest_address, base);
  if (base + bytes > atomic_load(&highest_address))
    atomic_store(&highest_address, base + bytes);
}

static void set_state(struct range *range, enum range_state state) {
  count_range(range, -1);
  range->state = (uint8_t)state;
  count_range(range, 1);
}

// ---- lists --------------------------------------------------------------------------------------

static bool list_reserve(struct range_list *list) {
  if (list->count < list->capacity)
    return true;
  size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
  struct range *items = realloc(list->items, capacity * sizeof *items);
  if (items == NULL)
    return false;
  list->items = items;
  list->capacity = capacity;
  return true;
}

bool list_append(struct range_list *list, const struct range *range) {
  if (!list_reserve(list))
    return false;
  list->items[list->count++] = *range;
  return true;
}

void list_free(struct range_list *list) {
  free(list->items);
  *list = (struct range_list){0};
}

bool passes_filter(const struct range *range, enum list_filter filter, uint64_t value, uint64_t bytes) {
  switch (filter) {
  case LIST_BY_CONTEXT:
    return range->context == value && range->kind != RANGE_HOST;
  case LIST_BY_OWNER:
    return range->owner == value;
  case LIST_BY_SPAN:
    return range->base < value + bytes && value < range->base + range->bytes;
  default:
    return true;
  }
}

// ---- finding ------------------------------------------------------------------------------------

size_t position_of(uint64_t address) {
  size_t low = 0, high = ranges.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges.items[middle].base + ranges.items[middle].bytes <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct range *range_at(uint64_t address) {
  size_t position = position_of(address);
  return position < ranges.count && ranges.items[position].base <= address ? &ranges.items[position] : NULL;
}

bool memory_find(uint64_t address, struct range *found) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = range_at(address);
  if (range == NULL)
    range = segment_at(address);
  if (range != NULL)
    *found = *range;
  pthread_mutex_unlock(&ranges_lock);
  return range != NULL;
}

// ---- changing -----------------------------------------------------------------------------------

bool insert_range(size_t position, struct range range) {
  if (!list_reserve(&ranges))
    return false;
  memmove(ranges.items + position + 1, ranges.items + position,
          (ranges.count - position) * sizeof *ranges.items);
  range.serial = ++last_serial;
  range.state = RANGE_UNTOUCHED;
  ranges.items[position] = range;
  ranges.count++;
  count_range(&ranges.items[position], 1);
  return true;
}

void more_is_untouched(void) { atomic_fetch_add(&state_number, 1); }

void remove_ranges(size_t position, size_t count) {
  if (count == 0)
    return;
  for (size_t n = position; n < position + count; n++)
    count_range(&ranges.items[n], -1);
  memmove(ranges.items + position, ranges.items + position + count,
          (ranges.count - position - count) * sizeof *ranges.items);
  ranges.count -= count;
}

void remove_ranges_in(uint64_t base, uint64_t bytes) {
  size_t position = position_of(base), end = position;
  while (end < ranges.count && ranges.items[end].base < base + bytes)
    end++;
  remove_ranges(position, end - position);
}

void memory_add(uint64_t base, uint64_t bytes, enum range_kind kind, uint64_t context, uint64_t owner) {
  if (base == 0 || bytes == 0 || base + bytes < base)
    return;
  pthread_mutex_lock(&ranges_lock);
  widen_addresses(base, bytes);
  remove_segments(LIST_BY_SPAN, base, bytes);
  size_t position = position_of(base);
  struct range *same = position < ranges.count ? &ranges.items[position] : NULL;
  // A variable of a module is asked for again and again; pinned memory is often registered in parts.
  bool known = same != NULL && kind == RANGE_GLOBAL && same->base == base && same->bytes == bytes &&
               same->owner == owner;
  if (!known) {
    // What overlaps ended without a call that says so.
    remove_ranges_in(base, bytes);
    struct range range = {.base = base,
                          .bytes = bytes,
                          .context = context,
                          .owner = owner,
                          .kind = (uint8_t)kind,
                          .host_visible = kind == RANGE_HOST || kind == RANGE_MANAGED};
    if (insert_range(position, range))
      more_is_untouched();
  }
  pthread_mutex_unlock(&ranges_lock);
}

void memory_remove(uint64_t base, uint32_t serial) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = range_at(base), *segment = segment_at(base);
  // Another thread may have been given the address again by now.
  if (segment != NULL) {
    if (segment->base == base && (serial == 0 || segment->serial == serial))
      remove_segment(segment);
  } else if (range != NULL && range->base == base && (serial == 0 || range->serial == serial))
    remove_ranges((size_t)(range - ranges.items), 1);
  pthread_mutex_unlock(&ranges_lock);
}

static void remove_all(enum list_filter filter, uint64_t value) {
  pthread_mutex_lock(&ranges_lock);
  size_t kept = 0;
  for (size_t n = 0; n < ranges.count; n++)
    if (passes_filter(&ranges.items[n], filter, value, 0))
      count_range(&ranges.items[n], -1);
    else
      ranges.items[kept++] = ranges.items[n];
  ranges.count = kept;
  remove_segments(filter, value, 0);
  pthread_mutex_unlock(&ranges_lock);
}

void memory_remove_owner(uint64_t owner) { remove_all(LIST_BY_OWNER, owner); }
void memory_remove_context(uint64_t context) { remove_all(LIST_BY_CONTEXT, context); }

void memory_mark(uint64_t base, uint32_t serial, enum range_state state) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = range_at(base);
  if (range != NULL && range->serial == serial)
    set_state(range, state);
  pthread_mutex_unlock(&ranges_lock);
}

void memory_forget_touches(void) {
  pthread_mutex_lock(&ranges_lock);
  more_is_untouched();
  for (size_t n = 0; n < ranges.count; n++)
    set_state(&ranges.items[n], RANGE_UNTOUCHED);
  pthread_mutex_unlock(&ranges_lock);
}

static void reset(void) {
  ranges.count = 0;
  forget_segments();
  atomic_store(&untouched_globals, 0);
  atomic_store(&untouched_others, 0);
  atomic_store(&touched_on_host, 0);
  more_is_untouched();
}
IN_CHILD(reset);

// ---- touching -----------------------------------------------------------------------------------

bool take_range(struct range *range, void *taken) {
  if (range->state != RANGE_UNTOUCHED || !list_append(taken, range))
    return false;
  set_state(range, RANGE_TOUCHED);
  // Other addresses of the same memory: they must be read before anything is written here.
  for (size_t n = 0; range->physical != 0 && n < ranges.count; n++) {
    struct range *other = &ranges.items[n];
    if (other->physical == range->physical && other->state == RANGE_UNTOUCHED && list_append(taken, other))
      set_state(other, RANGE_TOUCHED);
  }
  return false;
}

bool memory_has_untouched(uint64_t address, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = position_of(address); !found && n < ranges.count && ranges.items[n].base < address + bytes;
       n++)
    found = ranges.items[n].state == RANGE_UNTOUCHED;
  pthread_mutex_unlock(&ranges_lock);
  return found;
}

void memory_take(uint64_t address, uint64_t bytes, struct range_list *taken) {
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = position_of(address); n < ranges.count && ranges.items[n].base < address + bytes; n++)
    take_range(&ranges.items[n], taken);
  pthread_mutex_unlock(&ranges_lock);
}

uint64_t memory_state(void) { return atomic_load(&state_number); }

bool memory_has_untouched_kind(bool globals_only) {
  return atomic_load(&untouched_globals) > 0 || (!globals_only && atomic_load(&untouched_others) > 0);
}

bool memory_is_touched_on_host(void) { return atomic_load(&touched_on_host) > 0; }

bool memory_is_on_host(uint64_t address, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = position_of(address); !found && n < ranges.count && ranges.items[n].base < address + bytes;
       n++)
    found = ranges.items[n].host_visible && ranges.items[n].state != RANGE_UNTOUCHED;
  pthread_mutex_unlock(&ranges_lock);
  return found;
}

void memory_set_physical(uint64_t base, uint64_t physical) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = range_at(base);
  if (range != NULL)
    range->physical = physical;
  pthread_mutex_unlock(&ranges_lock);
}

void memory_make_host_visible(uint64_t base) {
  pthread_mutex_lock(&ranges_lock);
  struct range *range = range_at(base);
  if (range != NULL && !range->host_visible) {
    count_range(range, -1);
    range->host_visible = true;
    count_range(range, 1);
  }
  pthread_mutex_unlock(&ranges_lock);
}

void memory_take_kind(bool globals_only, struct range_list *taken) {
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = 0; n < ranges.count; n++)
    if (!globals_only || ranges.items[n].kind == RANGE_GLOBAL)
      take_range(&ranges.items[n], taken);
  pthread_mutex_unlock(&ranges_lock);
}

void memory_list_touched(enum list_filter filter, uint64_t value, uint64_t bytes, struct range_list *list) {
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = 0; n < ranges.count; n++)
    if (ranges.items[n].state == RANGE_TOUCHED && passes_filter(&ranges.items[n], filter, value, bytes))
      list_append(list, &ranges.items[n]);
  pthread_mutex_unlock(&ranges_lock);
}

bool memory_has_touched(enum list_filter filter, uint64_t value, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&ranges_lock);
  for (size_t n = 0; n < ranges.count && !found; n++)
    found = ranges.items[n].state == RANGE_TOUCHED && passes_filter(&ranges.items[n], filter, value, bytes);
  pthread_mutex_unlock(&ranges_lock);
  return found;
}
