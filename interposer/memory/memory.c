// Which ranges of memory exist, and which of them the open window has touched.
//
// Ranges are in one array sorted by address, under a mutex that is never held across a call of the driver.
#include "memory/memory.h"

#include "base/handles.h"
#include "driver/real.h"
#include "generated/structs.h"
#include "memory/ranges.h"

MUTEX(ranges_lock);
ZERO_IN_CHILD struct range_list ranges;
static uint32_t last_serial;
static _Atomic uint64_t state_number = 1; // see memory_state
// How many ranges are untouched: every launch asks whether there are any of those that any launch may use.
static ZERO_IN_CHILD atomic_size_t untouched_of_launches, untouched_others;
static ZERO_IN_CHILD atomic_size_t
    touched_on_host; // pinned and managed ranges that the device may be writing to
_Atomic uint64_t lowest_address = UINT64_MAX, highest_address;

static void count_range(const struct range *range, int change) {
  if (range->state == RANGE_UNTOUCHED)
    atomic_fetch_add(range->any_launch ? &untouched_of_launches : &untouched_others, (size_t)change);
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

bool list_append(struct range_list *list, const struct range *range) {
  if (!HAS_ROOM(list->items, list->count, list->capacity))
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

bool copy_found(const struct range *range, struct range *found) {
  if (range != NULL)
    *found = *range;
  return range != NULL;
}

bool memory_find(uint64_t address, struct range *found) {
  HOLD(ranges_lock);
  const struct range *range = range_at(address);
  return copy_found(range != NULL ? range : segment_at(address), found);
}

// ---- changing -----------------------------------------------------------------------------------

bool insert_range(size_t position, struct range range) {
  if (!HAS_ROOM(ranges.items, ranges.count, ranges.capacity))
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
IN_CHILD(more_is_untouched);

static void remove_ranges(size_t position, size_t count) {
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

void remove_range(struct range *range) { remove_ranges((size_t)(range - ranges.items), 1); }

void memory_add(struct range range) {
  if (range.base == 0 || range.bytes == 0 || range.base + range.bytes < range.base)
    return;
  range.host_visible = range.host_visible || range.kind == RANGE_HOST || range.kind == RANGE_MANAGED;
  HOLD(ranges_lock);
  widen_addresses(range.base, range.bytes);
  remove_segments(LIST_BY_SPAN, range.base, range.bytes);
  size_t position = position_of(range.base);
  struct range *same = position < ranges.count ? &ranges.items[position] : NULL;
  // A variable of a module is asked for again and again; pinned memory is often registered in parts.
  if (same != NULL && range.kind == RANGE_GLOBAL && same->base == range.base && same->bytes == range.bytes &&
      same->owner == range.owner)
    return;
  // What overlaps ended without a call that says so.
  remove_ranges_in(range.base, range.bytes);
  if (insert_range(position, range))
    more_is_untouched();
}

void memory_add_variable(const uint64_t found[2], uint64_t context, uint64_t owner, bool managed) {
  struct range range = {.base = found[0], .bytes = found[1], .context = context, .owner = owner};
  range.kind = RANGE_GLOBAL;
  range.any_launch = true;
  range.host_visible = managed || is_host_visible(found[0]);
  memory_add(range);
}

void memory_bind(uint64_t address) {
  HOLD(ranges_lock);
  struct range *range = range_at(address);
  if (range == NULL)
    return;
  count_range(range, -1);
  range->any_launch = true;
  count_range(range, 1);
}

void memory_remove(uint64_t base, uint32_t serial) {
  HOLD(ranges_lock);
  struct range *segment = segment_at(base), *range = segment != NULL ? segment : range_at(base);
  // Another thread may have been given the address again by now.
  if (range == NULL || range->base != base || (serial != 0 && range->serial != serial))
    return;
  if (segment != NULL)
    remove_segment(segment);
  else
    remove_range(range);
}

void memory_remove_all(enum list_filter filter, uint64_t value, uint64_t bytes) {
  HOLD(ranges_lock);
  size_t kept = 0;
  for (size_t n = 0; n < ranges.count; n++)
    if (passes_filter(&ranges.items[n], filter, value, bytes))
      count_range(&ranges.items[n], -1);
    else
      ranges.items[kept++] = ranges.items[n];
  ranges.count = kept;
  remove_segments(filter, value, bytes);
}

void memory_lose(const struct range *lost) {
  HOLD(ranges_lock);
  struct range *range = range_at(lost->base);
  if (range != NULL && range->serial == lost->serial)
    set_state(range, RANGE_LOST);
}

void memory_forget_touches(void) {
  HOLD(ranges_lock);
  more_is_untouched();
  for (size_t n = 0; n < ranges.count; n++)
    set_state(&ranges.items[n], RANGE_UNTOUCHED);
}

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

// Of the ranges that overlap, until `visit` says so.
static inline bool visit_span(uint64_t address, uint64_t bytes, bool (*visit)(struct range *, void *),
                              void *state) {
  HOLD(ranges_lock);
  for (size_t n = position_of(address); n < ranges.count && ranges.items[n].base < address + bytes; n++)
    if (visit(&ranges.items[n], state))
      return true;
  return false;
}

bool is_untouched(struct range *range, void *unused) {
  (void)unused;
  return range->state == RANGE_UNTOUCHED;
}

static bool is_touched_on_host(struct range *range, void *unused) {
  (void)unused;
  return range->host_visible && range->state != RANGE_UNTOUCHED;
}

bool memory_has_untouched(uint64_t address, uint64_t bytes) {
  return visit_span(address, bytes, is_untouched, NULL);
}

bool memory_is_on_host(uint64_t address, uint64_t bytes) {
  return visit_span(address, bytes, is_touched_on_host, NULL);
}

void memory_take(uint64_t address, uint64_t bytes, struct range_list *taken) {
  visit_span(address, bytes, take_range, taken);
}

uint64_t memory_state(void) { return atomic_load(&state_number); }

bool memory_has_untouched_of(bool any_launch) {
  return atomic_load(&untouched_of_launches) > 0 || (!any_launch && atomic_load(&untouched_others) > 0);
}

bool memory_is_touched_on_host(void) { return atomic_load(&touched_on_host) > 0; }

void memory_take_of(bool any_launch, struct range_list *taken) {
  HOLD(ranges_lock);
  for (size_t n = 0; n < ranges.count; n++)
    if (!any_launch || ranges.items[n].any_launch)
      take_range(&ranges.items[n], taken);
}

void memory_list_touched(enum list_filter filter, uint64_t value, uint64_t bytes, struct range_list *list) {
  HOLD(ranges_lock);
  for (size_t n = 0; n < ranges.count; n++)
    if (ranges.items[n].state == RANGE_TOUCHED && passes_filter(&ranges.items[n], filter, value, bytes))
      list_append(list, &ranges.items[n]);
}

// ---- physical memory ----------------------------------------------------------------------------

// Mappings that share physical memory (cuMemCreate, cuMemMap) are read together, since what is written at one
// address is there at the others. A handle may be given out again after cuMemRelease, while mappings keep the
// memory: each creation has a number of its own.
static MUTEX(physical_lock);
static ZERO_IN_CHILD struct handle_table
    physical; // the number, and in the lowest bit whether it is on the host
static uint64_t last_number;

// Any number may be a handle, and 0 and 1 are none in a table.
static uint64_t key_of(uint64_t handle) { return handle + 2; }

static void set_number(uint64_t handle, uint64_t number, bool on_host) {
  HOLD(physical_lock);
  struct handle_row *row = find_handle(&physical, key_of(handle));
  void *entry = (void *)(uintptr_t)((number != 0 ? number : ++last_number) << 1 | on_host);
  if (row != NULL)
    row->object = entry;
  else
    add_handle(&physical, key_of(handle), entry);
}

void physical_made(const struct call *call) {
  bool described = parameter_of(call->function, 2)->role == ROLE_IN && call->arguments[2] != 0;
  if (!described)
    atomic_store(&memory_is_shared, true);
  const struct CUmemAllocationProp *properties = described ? pointer_argument(call, 2) : NULL;
  set_number(handle_given_out(call), 0, described && properties->location.type != LOCATION_DEVICE);
}

void physical_retained(const struct call *call) {
  struct range range;
  if (memory_find(call->arguments[1], &range) && range.physical != 0)
    set_number(handle_given_out(call), range.physical, range.host_visible);
}

uint64_t physical_number(uint64_t handle, bool *on_host) {
  HOLD(physical_lock);
  const struct handle_row *row = find_handle(&physical, key_of(handle));
  uint64_t entry = row != NULL ? (uint64_t)(uintptr_t)row->object : 0;
  *on_host = (entry & 1) != 0;
  return entry >> 1;
}
