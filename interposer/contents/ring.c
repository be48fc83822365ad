// What windows that nobody keeps hold of the blobs file, to be used again by later ones.
//
// A chunk of a range is on file from the copy that wrote it to the one that found it changed, and all windows
// between the two have it. When the last of these has fallen out of the ring and none is kept, its place is
// free. Used by the thread that closed the gate, and the one it started.
#include "base/selection.h"
#include "base/state.h"
#include "contents/copy.h"
#include "record/writer.h"

enum { PLACE_BYTES = 64, CLASSES = CHUNK_BYTES / PLACE_BYTES + 1, MAX_KEPT = 1024 };

struct place {
  uint64_t blob;
  uint32_t from, to; // windows that have it
};
static ZERO_IN_CHILD struct { // of one size, the oldest first
  struct place *items;
  size_t first, count, capacity;
} places[CLASSES];
static ZERO_IN_CHILD struct {
  uint32_t from, to;
} kept[MAX_KEPT];
static ZERO_IN_CHILD _Atomic size_t kept_count; // read by the thread that copies

static bool has_ring(void) { return selection.when.triggers != 0; }
static size_t class_of(size_t bytes) { return (bytes + PLACE_BYTES - 1) / PLACE_BYTES; }

// A crash may come while the inputs of the next launch are read: then its window is none yet.
static uint32_t ring_windows(void) {
  uint32_t ring = selection.when.ring > 1 ? (uint32_t)selection.when.ring : 1;
  return ring + ((selection.when.triggers & WHEN_CRASH) != 0 ? 1 : 0);
}

void windows_are_kept(void) {
  uint32_t last = atomic_load(&window_number), windows = ring_windows();
  size_t count = atomic_load(&kept_count);
  if (count < MAX_KEPT) {
    kept[count].from = last > windows ? last - windows + 1 : 1;
    kept[count].to = last;
    atomic_store(&kept_count, count + 1);
  }
}

static bool is_kept(const struct place *place) {
  size_t count = atomic_load(&kept_count);
  for (size_t n = 0; n < count; n++)
    if (place->from <= kept[n].to && place->to >= kept[n].from)
      return true;
  return count == MAX_KEPT;
}

void chunk_is_superseded(uint64_t blob, size_t bytes, uint32_t since) {
  size_t class = class_of(bytes);
  if (!has_ring() || blob == UINT64_MAX || bytes == 0)
    return;
  if (places[class].first > 1024 && places[class].first > places[class].count / 2) {
    places[class].count -= places[class].first;
    memmove(places[class].items, places[class].items + places[class].first,
            places[class].count * sizeof *places[class].items);
    places[class].first = 0;
  }
  enum { FIRST_PLACES = 16 }; // as has_room_for begins; later it doubles them
  size_t more = places[class].capacity > 0 ? places[class].capacity : FIRST_PLACES;
  if (places[class].count == places[class].capacity && !take_room(more * sizeof *places[class].items))
    return; // it stays in use
  if (HAS_ROOM(places[class].items, places[class].count, places[class].capacity))
    places[class].items[places[class].count++] = (struct place){blob, since, atomic_load(&window_number)};
}

uint64_t reserve_chunk(size_t bytes) {
  size_t class = class_of(bytes);
  uint32_t now = atomic_load(&window_number);
  while (has_ring() && places[class].first < places[class].count) {
    const struct place *place = &places[class].items[places[class].first];
    if (place->to + ring_windows() > now)
      break;
    places[class].first++;
    if (!is_kept(place))
      return place->blob;
  }
  return reserve_blob(bytes);
}
