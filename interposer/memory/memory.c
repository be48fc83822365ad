// Which ranges of memory exist, and which of them the open window has touched.
//
// Ranges stand in one array sorted by address, under a mutex that is never held across a call of the driver.
#include "shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range_list all;
static uint32_t last_serial;
static _Atomic uint64_t state_number = 1; // see memory_state
// How many ranges are untouched, module variables apart: every launch asks whether there are any.
static atomic_size_t untouched_globals, untouched_others;
static atomic_size_t touched_on_host; // pinned and managed ranges that the device may be writing to
// Every range lies in [lowest, highest), those of arrays apart; they only ever grow.
static _Atomic uint64_t lowest_address = UINT64_MAX, highest_address;

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

// ---- finding ------------------------------------------------------------------------------------

// Position of the first range whose end lies above `address`.
static size_t position_of(uint64_t address) {
  size_t low = 0, high = all.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (all.items[middle].base + all.items[middle].bytes <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static struct range *range_at(uint64_t address) {
  size_t position = position_of(address);
  return position < all.count && all.items[position].base <= address ? &all.items[position] : NULL;
}

// Allocations of which an allocator has said which blocks are in use; the blocks stand in `all` instead.
static struct range_list segments;
static atomic_size_t segment_count;

static struct range *segment_at(uint64_t address) {
  for (size_t n = 0; n < segments.count; n++)
    if (address - segments.items[n].base < segments.items[n].bytes)
      return &segments.items[n];
  return NULL;
}

bool memory_find(uint64_t address, struct range *found) {
  pthread_mutex_lock(&lock);
  struct range *range = range_at(address);
  if (range == NULL)
    range = segment_at(address);
  if (range != NULL)
    *found = *range;
  pthread_mutex_unlock(&lock);
  return range != NULL;
}

// ---- changing -----------------------------------------------------------------------------------

static void remove_at(size_t position, size_t count) {
  if (count == 0)
    return;
  for (size_t n = position; n < position + count; n++)
    count_range(&all.items[n], -1);
  memmove(all.items + position, all.items + position + count,
          (all.count - position - count) * sizeof *all.items);
  all.count -= count;
}

static void remove_span(uint64_t base, uint64_t bytes) {
  size_t position = position_of(base), end = position;
  while (end < all.count && all.items[end].base < base + bytes)
    end++;
  remove_at(position, end - position);
}

static void remove_segment(struct range *segment) {
  remove_span(segment->base, segment->bytes);
  *segment = segments.items[--segments.count];
  atomic_store(&segment_count, segments.count);
}

void memory_add(uint64_t base, uint64_t bytes, enum range_kind kind, uint64_t context, uint64_t owner) {
  if (base == 0 || bytes == 0 || base + bytes < base)
    return;
  pthread_mutex_lock(&lock);
  widen_addresses(base, bytes);
  for (size_t n = segments.count; n > 0; n--)
    if (segments.items[n - 1].base < base + bytes &&
        base < segments.items[n - 1].base + segments.items[n - 1].bytes)
      remove_segment(&segments.items[n - 1]);
  size_t position = position_of(base);
  struct range *same = position < all.count ? &all.items[position] : NULL;
  // A variable of a module is asked for again and again; pinned memory is often registered in parts.
  bool known = same != NULL && kind == RANGE_GLOBAL && same->base == base && same->bytes == bytes &&
               same->owner == owner;
  if (!known) {
    // What overlaps ended without a call that says so.
    size_t end = position;
    while (end < all.count && all.items[end].base < base + bytes)
      end++;
    remove_at(position, end - position);
    if (list_reserve(&all)) {
      memmove(all.items + position + 1, all.items + position, (all.count - position) * sizeof *all.items);
      all.items[position] = (struct range){.base = base,
                                           .bytes = bytes,
                                           .context = context,
                                           .owner = owner,
                                           .serial = ++last_serial,
                                           .kind = (uint8_t)kind,
                                           .host_visible = kind == RANGE_HOST || kind == RANGE_MANAGED,
                                           .state = RANGE_UNTOUCHED};
      count_range(&all.items[position], 1);
      all.count++;
      atomic_fetch_add(&state_number, 1);
    }
  }
  pthread_mutex_unlock(&lock);
}

void memory_remove(uint64_t base, uint32_t serial) {
  pthread_mutex_lock(&lock);
  struct range *range = range_at(base), *segment = segment_at(base);
  // Another thread may have been given the address again by now.
  if (segment != NULL) {
    if (segment->base == base && (serial == 0 || segment->serial == serial))
      remove_segment(segment);
  } else if (range != NULL && range->base == base && (serial == 0 || range->serial == serial))
    remove_at((size_t)(range - all.items), 1);
  pthread_mutex_unlock(&lock);
}

static bool passes_filter(const struct range *range, enum list_filter filter, uint64_t value,
                          uint64_t bytes) {
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

static void remove_all(enum list_filter filter, uint64_t value) {
  pthread_mutex_lock(&lock);
  size_t kept = 0;
  for (size_t n = 0; n < all.count; n++)
    if (passes_filter(&all.items[n], filter, value, 0))
      count_range(&all.items[n], -1);
    else
      all.items[kept++] = all.items[n];
  all.count = kept;
  for (size_t n = segments.count; n > 0; n--)
    if (passes_filter(&segments.items[n - 1], filter, value, 0))
      remove_segment(&segments.items[n - 1]);
  pthread_mutex_unlock(&lock);
}

void memory_remove_owner(uint64_t owner) { remove_all(LIST_BY_OWNER, owner); }
void memory_remove_context(uint64_t context) { remove_all(LIST_BY_CONTEXT, context); }

void memory_mark(uint64_t base, uint32_t serial, enum range_state state) {
  pthread_mutex_lock(&lock);
  struct range *range = range_at(base);
  if (range != NULL && range->serial == serial)
    set_state(range, state);
  pthread_mutex_unlock(&lock);
}

void memory_forget_touches(void) {
  pthread_mutex_lock(&lock);
  atomic_fetch_add(&state_number, 1);
  for (size_t n = 0; n < all.count; n++)
    set_state(&all.items[n], RANGE_UNTOUCHED);
  pthread_mutex_unlock(&lock);
}

void reset_memory_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  all.count = segments.count = 0;
  atomic_store(&segment_count, 0);
  atomic_store(&untouched_globals, 0);
  atomic_store(&untouched_others, 0);
  atomic_store(&touched_on_host, 0);
  atomic_fetch_add(&state_number, 1);
}

// ---- blocks of allocations ----------------------------------------------------------------------

bool memory_find_allocation(uint64_t address, struct range *found) {
  pthread_mutex_lock(&lock);
  struct range *range = segment_at(address);
  if (range == NULL)
    range = range_at(address);
  if (range != NULL)
    *found = *range;
  pthread_mutex_unlock(&lock);
  return range != NULL;
}

// The stretches of [address, address + bytes) that are in no range become ranges of the segment.
static void cover(const struct range *segment, uint64_t address, uint64_t bytes) {
  uint64_t at = address > segment->base ? address : segment->base;
  uint64_t end =
      address + bytes < segment->base + segment->bytes ? address + bytes : segment->base + segment->bytes;
  while (at < end) {
    size_t position = position_of(at);
    const struct range *next = position < all.count ? &all.items[position] : NULL;
    if (next != NULL && next->base <= at) {
      at = next->base + next->bytes;
      continue;
    }
    uint64_t stop = next != NULL && next->base < end ? next->base : end;
    if (!list_reserve(&all))
      return;
    memmove(all.items + position + 1, all.items + position, (all.count - position) * sizeof *all.items);
    struct range block = *segment;
    block.base = at;
    block.bytes = stop - at;
    block.serial = ++last_serial;
    block.state = RANGE_UNTOUCHED;
    all.items[position] = block;
    all.count++;
    count_range(&all.items[position], 1);
    at = stop;
  }
  atomic_fetch_add(&state_number, 1);
}

void memory_block_lives(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || address + bytes < address)
    return;
  pthread_mutex_lock(&lock);
  struct range *segment = segment_at(address), *range = range_at(address);
  // What is no allocation, is one block as a whole, or was read as a whole already, stays as it is.
  if (segment == NULL && range != NULL && range->state == RANGE_UNTOUCHED && range->kind != RANGE_GLOBAL &&
      bytes < range->bytes && list_append(&segments, range)) {
    segment = &segments.items[segments.count - 1];
    atomic_store(&segment_count, segments.count);
    remove_at((size_t)(range - all.items), 1);
  }
  if (segment != NULL)
    cover(segment, address, bytes);
  pthread_mutex_unlock(&lock);
}

void memory_block_ends(uint64_t address) {
  pthread_mutex_lock(&lock);
  struct range *range = range_at(address);
  // What the window has touched is read once more at its end.
  if (segment_at(address) != NULL && range != NULL && range->base == address &&
      range->state == RANGE_UNTOUCHED)
    remove_at((size_t)(range - all.items), 1);
  pthread_mutex_unlock(&lock);
}

bool memory_has_blocks(void) { return atomic_load(&segment_count) > 0; }

void memory_cover(uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  struct range *segment = segment_at(address);
  if (segment != NULL)
    cover(segment, address, bytes);
  pthread_mutex_unlock(&lock);
}

bool memory_cover_targets(const void *data, size_t bytes, bool only_ask) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word;
    memcpy(&word, (const uint8_t *)data + n, 8);
    struct range *segment = segment_at(word);
    if (segment == NULL || range_at(word) != NULL)
      continue;
    found = true;
    size_t position = position_of(word);
    uint64_t begin = segment->base, end = segment->base + segment->bytes;
    if (position > 0 && all.items[position - 1].base + all.items[position - 1].bytes > begin)
      begin = all.items[position - 1].base + all.items[position - 1].bytes;
    if (position < all.count && all.items[position].base < end)
      end = all.items[position].base;
    if (!only_ask)
      cover(segment, begin, end - begin);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

// ---- touching -----------------------------------------------------------------------------------

// Calls `visit` for each range that an aligned word points into, or reaches as the handle of a texture or
// surface object; with the lock held. Stops when `visit` says so.
static bool scan(const void *data, size_t bytes, bool (*visit)(struct range *, void *), void *state) {
  const uint8_t *at = data;
  size_t count = position_of(ARRAY_ADDRESSES); // nothing points into an array
  uint64_t lowest = count > 0 ? all.items[0].base : 0;
  uint64_t span = count > 0 ? all.items[count - 1].base + all.items[count - 1].bytes - lowest : 0;
  uint64_t handles = atomic_load(&object_span), lowest_handle = atomic_load(&lowest_object);
  uint64_t last = 0;
  if (span == 0 && handles == 0)
    return false;
  for (size_t n = 0; n + TENSOR_MAP_BYTES <= bytes && atomic_load(&tensor_maps) > 0;
       n += TENSOR_MAP_ALIGNMENT) {
    uint64_t address = tensor_map_address(at + n);
    struct range *range = address != 0 ? range_at(address) : NULL;
    if (range != NULL && visit(range, state))
      return true;
  }
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word;
    memcpy(&word, at + n, 8);
    bool may_point = word - lowest < span, may_be_handle = word - lowest_handle < handles;
    if (LIKELY(!may_point && !may_be_handle) || word == last)
      continue;
    last = word;
    struct range *range = may_point ? range_at(word) : NULL;
    if (range != NULL && visit(range, state))
      return true;
    uint64_t targets[MAX_OBJECT_TARGETS];
    for (unsigned found = may_be_handle ? object_targets(word, targets) : 0; found > 0; found--) {
      range = range_at(targets[found - 1]);
      if (range != NULL && visit(range, state))
        return true;
    }
  }
  return false;
}

struct word_spans memory_word_spans(void) {
  static const uint64_t address_room = (uint64_t)1 << 36, handle_room = 1 << 12;
  struct word_spans spans = {0, 0, 0, 0};
  pthread_mutex_lock(&lock);
  size_t count = position_of(ARRAY_ADDRESSES);
  if (count > 0) {
    uint64_t end = all.items[count - 1].base + all.items[count - 1].bytes;
    spans.address = all.items[0].base & ~(address_room - 1);
    spans.address_bytes = (end | (address_room - 1)) - spans.address;
  }
  pthread_mutex_unlock(&lock);
  uint64_t handles = atomic_load(&object_span), lowest = atomic_load(&lowest_object);
  if (handles > 0) {
    spans.handle = lowest & ~(handle_room - 1);
    spans.handles = ((lowest + handles) | (handle_room - 1)) - spans.handle + 1;
  }
  return spans;
}

bool memory_may_reach(const void *data, size_t bytes, const struct word_spans *spans) {
  const uint8_t *from = data;
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    uint64_t word;
    memcpy(&word, from + at, 8);
    if (UNLIKELY(word - spans->address < spans->address_bytes || word - spans->handle < spans->handles))
      return true;
  }
  for (size_t at = 0; at + TENSOR_MAP_BYTES <= bytes && atomic_load(&tensor_maps) > 0;
       at += TENSOR_MAP_ALIGNMENT)
    if (tensor_map_address(from + at) != 0)
      return true;
  return false;
}

static bool take_range(struct range *range, void *taken) {
  if (range->state != RANGE_UNTOUCHED || !list_append(taken, range))
    return false;
  set_state(range, RANGE_TOUCHED);
  // Other addresses of the same memory: they must be read before anything is written here.
  for (size_t n = 0; range->physical != 0 && n < all.count; n++) {
    struct range *other = &all.items[n];
    if (other->physical == range->physical && other->state == RANGE_UNTOUCHED && list_append(taken, other))
      set_state(other, RANGE_TOUCHED);
  }
  return false;
}

static bool is_untouched(struct range *range, void *unused) {
  (void)unused;
  return range->state == RANGE_UNTOUCHED;
}

void memory_reach(const void *data, size_t bytes, struct range_list *reached) {
  pthread_mutex_lock(&lock);
  scan(data, bytes, take_range, reached);
  pthread_mutex_unlock(&lock);
}

static size_t place_of_word(uint64_t word) { return (size_t)((word * 0x9e3779b97f4a7c15u) >> 56); }
_Static_assert(KNOWN_WORDS == 1 << 8, "place_of_word");

// Words behind which nothing untouched was found lately: a program passes the same addresses again and again.
static bool is_known_word(const struct thread *thread, uint64_t word, uint64_t state) {
  const struct known_word *known = &thread->known[place_of_word(word)];
  return known->word == word && known->state == state;
}

static bool may_reach(uint64_t word) {
  return (word >= atomic_load_explicit(&lowest_address, memory_order_relaxed) &&
          word < atomic_load_explicit(&highest_address, memory_order_relaxed)) ||
         word - atomic_load(&lowest_object) < atomic_load(&object_span);
}

static bool all_are_known(const struct thread *thread, const void *data, size_t bytes, uint64_t state) {
  if (bytes >= TENSOR_MAP_BYTES && atomic_load(&tensor_maps) > 0)
    return false;
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word;
    memcpy(&word, (const uint8_t *)data + n, 8);
    if (may_reach(word) && !is_known_word(thread, word, state))
      return false;
  }
  return true;
}

static void remember_words(struct thread *thread, const void *data, size_t bytes, uint64_t state) {
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word;
    memcpy(&word, (const uint8_t *)data + n, 8);
    if (may_reach(word) && word - atomic_load(&lowest_object) >= atomic_load(&object_span))
      thread->known[place_of_word(word)] = (struct known_word){word, state};
  }
}

bool memory_points_to_untouched(const void *data, size_t bytes) {
  struct thread *thread = current_thread();
  uint64_t state = memory_state();
  if (all_are_known(thread, data, bytes, state))
    return false;
  pthread_mutex_lock(&lock);
  bool found = scan(data, bytes, is_untouched, NULL);
  pthread_mutex_unlock(&lock);
  if (!found)
    remember_words(thread, data, bytes, state);
  return found;
}

bool memory_has_untouched(uint64_t address, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t n = position_of(address); !found && n < all.count && all.items[n].base < address + bytes; n++)
    found = all.items[n].state == RANGE_UNTOUCHED;
  pthread_mutex_unlock(&lock);
  return found;
}

void memory_take(uint64_t address, uint64_t bytes, struct range_list *taken) {
  pthread_mutex_lock(&lock);
  for (size_t n = position_of(address); n < all.count && all.items[n].base < address + bytes; n++)
    take_range(&all.items[n], taken);
  pthread_mutex_unlock(&lock);
}

uint64_t memory_state(void) { return atomic_load(&state_number); }

bool memory_has_untouched_kind(bool globals_only) {
  return atomic_load(&untouched_globals) > 0 || (!globals_only && atomic_load(&untouched_others) > 0);
}

bool memory_is_touched_on_host(void) { return atomic_load(&touched_on_host) > 0; }

bool memory_is_on_host(uint64_t address, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t n = position_of(address); !found && n < all.count && all.items[n].base < address + bytes; n++)
    found = all.items[n].host_visible && all.items[n].state != RANGE_UNTOUCHED;
  pthread_mutex_unlock(&lock);
  return found;
}

void memory_set_physical(uint64_t base, uint64_t physical) {
  pthread_mutex_lock(&lock);
  struct range *range = range_at(base);
  if (range != NULL)
    range->physical = physical;
  pthread_mutex_unlock(&lock);
}

void memory_make_host_visible(uint64_t base) {
  pthread_mutex_lock(&lock);
  struct range *range = range_at(base);
  if (range != NULL && !range->host_visible) {
    count_range(range, -1);
    range->host_visible = true;
    count_range(range, 1);
  }
  pthread_mutex_unlock(&lock);
}

void memory_take_kind(bool globals_only, struct range_list *taken) {
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n < all.count; n++)
    if (!globals_only || all.items[n].kind == RANGE_GLOBAL)
      take_range(&all.items[n], taken);
  pthread_mutex_unlock(&lock);
}

void memory_list_touched(enum list_filter filter, uint64_t value, uint64_t bytes, struct range_list *list) {
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n < all.count; n++)
    if (all.items[n].state == RANGE_TOUCHED && passes_filter(&all.items[n], filter, value, bytes))
      list_append(list, &all.items[n]);
  pthread_mutex_unlock(&lock);
}

bool memory_has_touched(enum list_filter filter, uint64_t value, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n < all.count && !found; n++)
    found = all.items[n].state == RANGE_TOUCHED && passes_filter(&all.items[n], filter, value, bytes);
  pthread_mutex_unlock(&lock);
  return found;
}
