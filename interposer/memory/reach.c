// Which ranges the words of a stretch of memory reach: as addresses, as handles of texture and surface
// objects, and as tensor maps.
#include "memory/arrays.h"
#include "memory/ranges.h"

// Calls `visit` for each range that an aligned word points into, or reaches as the handle of a texture or
// surface object; with the lock held. Stops when `visit` says so. leads: whether any word is among the
// addresses or handles that there are.
static bool scan(const void *data, size_t bytes, bool (*visit)(struct range *, void *), void *state,
                 bool *leads) {
  const uint8_t *at = data;
  uint64_t lowest = atomic_load(&lowest_address), highest = atomic_load(&highest_address);
  uint64_t span = highest > lowest ? highest - lowest : 0; // nothing points into an array
  uint64_t handles = atomic_load(&object_span), lowest_handle = atomic_load(&lowest_object);
  uint64_t last = 0;
  *leads = false;
  for (size_t n = 0; n + TENSOR_MAP_BYTES <= bytes && atomic_load(&tensor_maps) > 0;
       n += TENSOR_MAP_ALIGNMENT) {
    uint64_t address = tensor_map_address(at + n);
    struct range *range = address != 0 ? range_at(address) : NULL;
    *leads = *leads || address != 0;
    if (range != NULL && visit(range, state))
      return true;
  }
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word = word_at(at, n);
    bool may_point = word - lowest < span, may_be_handle = word - lowest_handle < handles;
    if (LIKELY(!may_point && !may_be_handle) || word == last)
      continue;
    last = word;
    *leads = true;
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

uint64_t memory_spans(void) {
  static const uint64_t factor = 0x9e3779b97f4a7c15u;
  uint64_t spans = atomic_load(&lowest_address) * factor ^ atomic_load(&highest_address);
  return (spans * factor ^ atomic_load(&lowest_object)) * factor ^ atomic_load(&object_span);
}

static bool stop_here(struct range *range, void *state) {
  (void)range;
  (void)state;
  return true;
}

bool memory_leads_anywhere(const void *data, size_t bytes) {
  bool leads = false;
  if (atomic_load(&tensor_maps) > 0) {
    HOLD(ranges_lock);
    scan(data, bytes, stop_here, NULL, &leads);
    return leads;
  }
  uint64_t lowest = atomic_load(&lowest_address), highest = atomic_load(&highest_address);
  uint64_t span = highest > lowest ? highest - lowest : 0;
  uint64_t handles = atomic_load(&object_span), lowest_handle = atomic_load(&lowest_object);
  for (size_t n = 0; n + 8 <= bytes; n += 8) { // with no branch: nearly always nothing is found
    uint64_t word = word_at(data, n);
    leads |= (word - lowest < span) | (word - lowest_handle < handles);
  }
  return leads;
}

bool memory_reach(const void *data, size_t bytes, struct range_list *reached) {
  bool leads;
  HOLD(ranges_lock);
  scan(data, bytes, take_range, reached, &leads);
  return leads;
}

struct naming {
  struct range *items;
  size_t most, count;
  bool is_more;
};

static bool name_range(struct range *range, void *state) {
  struct naming *naming = state;
  for (size_t n = 0; n < naming->count; n++)
    if (naming->items[n].base == range->base)
      return false;
  naming->is_more = naming->count == naming->most || range->physical != 0; // which has other addresses
  if (!naming->is_more)
    naming->items[naming->count++] = *range;
  return naming->is_more;
}

bool memory_named(const void *data, size_t bytes, struct range *named, size_t most, size_t *count) {
  struct naming naming = {.items = named, .most = most};
  bool leads;
  HOLD(ranges_lock);
  bool is_all = !scan(data, bytes, name_range, &naming, &leads);
  for (size_t n = 0; is_all && n < ranges.count; n++)
    is_all = !ranges.items[n].any_launch || !name_range(&ranges.items[n], &naming);
  *count = naming.count;
  return is_all;
}

static size_t place_of_word(uint64_t word) { return (size_t)((word * 0x9e3779b97f4a7c15u) >> 56); }
_Static_assert(KNOWN_WORDS == 1 << 8, "place_of_word");

// Words that lately led to nothing untouched: a program passes the same addresses again and again.
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
    uint64_t word = word_at(data, n);
    if (may_reach(word) && !is_known_word(thread, word, state))
      return false;
  }
  return true;
}

static void remember_words(struct thread *thread, const void *data, size_t bytes, uint64_t state) {
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word = word_at(data, n);
    if (may_reach(word) && word - atomic_load(&lowest_object) >= atomic_load(&object_span))
      thread->known[place_of_word(word)] = (struct known_word){word, state};
  }
}

bool memory_points_to_untouched(const void *data, size_t bytes) {
  struct thread *thread = current_thread();
  uint64_t state = memory_state();
  if (all_are_known(thread, data, bytes, state))
    return false;
  bool leads;
  HOLD(ranges_lock);
  if (scan(data, bytes, is_untouched, NULL, &leads))
    return true;
  remember_words(thread, data, bytes, state);
  return false;
}
