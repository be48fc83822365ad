// Copies of memory in stream order. What the driver's documentation says of the calls, of which this is made:
//
// - cuMemcpyDtoHAsync with page-locked host memory returns before the copy is done, and the copy is done in
//   the order of its stream: after all work before it, before the launch that follows. In the legacy default
//   stream it is ordered as that launch is, so no stream waits for another that would not have.
// - cuMemHostRegister page-locks memory that the process has; PORTABLE is for all contexts, DEVICEMAP gives
//   it an address on the device. What was copied there is the process's, also when the context is lost.
// - cuStreamWriteValue32 writes a word when the stream comes to it, after a fence for the whole system: who
//   sees the word sees the copies before it. An event could not be asked once the context is lost.
// - None of them is allowed in a stream that is captured, or beside a capture in the legacy stream: no image
//   is made while any capture is under way.
//
// Not yet seen on a GPU (GT-COPIES-BEFORE-A-FAULT).
#include "contents/images.h"

#include "base/handles.h"
#include "base/selection.h"
#include "driver/real.h"

#include <sys/mman.h>

enum { ALIGNMENT = 64, MARKER_BYTES = MARKERS * sizeof(uint32_t) };
static const uint64_t usual_room = (uint64_t)64 << 20;

static ZERO_IN_CHILD uint8_t *memory; // the markers, then the images
static ZERO_IN_CHILD uint64_t room, head, context_of_memory, markers_on_device;
static ZERO_IN_CHILD bool is_refused;

bool images_can_be_made(uint64_t context) {
  enum { PORTABLE = 1, DEVICEMAP = 2 }; // CU_MEMHOSTREGISTER_...
  if (memory != NULL || is_refused || context == 0)
    return memory != NULL && context == context_of_memory;
  room = selection.when.ring_room != 0 ? selection.when.ring_room : usual_room;
  size_t bytes = MARKER_BYTES + room;
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  is_refused = mapped == MAP_FAILED;
  if (is_refused)
    return false;
  madvise(mapped, bytes, MADV_DONTFORK);
  is_refused = ASK("cuMemHostRegister_v2", word(mapped), bytes, PORTABLE | DEVICEMAP) != SUCCESS;
  if (!is_refused &&
      ASK("cuMemHostGetDevicePointer_v2", word(&markers_on_device), word(mapped), 0) != SUCCESS) {
    ASK("cuMemHostUnregister", word(mapped));
    is_refused = true;
  }
  if (is_refused) {
    munmap(mapped, bytes);
    return false;
  }
  memory = mapped;
  context_of_memory = context;
  return true;
}

bool images_are_there(void) { return memory != NULL; }

void images_end(uint64_t context, bool are_written) {
  if (memory == NULL || (context != 0 && context != context_of_memory))
    return;
  // Where it stays registered the device may still write there.
  if (!are_written && ASK("cuMemHostUnregister", word(memory)) == SUCCESS)
    munmap(memory, MARKER_BYTES + room);
  memory = NULL;
  head = 0;
}

uint64_t image_room(void) { return room; }
uint64_t next_image(void) { return head; }
const uint8_t *image_at(uint64_t position) { return memory + MARKER_BYTES + position % room; }

uint64_t position_for(uint64_t at, uint64_t bytes) {
  uint64_t start = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return start % room + bytes > room ? (start / room + 1) * room : start; // in one piece
}

uint64_t reserve_image(uint64_t bytes) {
  uint64_t position = position_for(head, bytes);
  head = position + bytes;
  return position;
}

int take_image(const struct range *range, struct stream_name stream, uint64_t position) {
  uint64_t to = word(image_at(position));
  return stream.per_thread ? ASK("cuMemcpyDtoHAsync_v2_ptsz", to, range->base, range->bytes, stream.handle)
                           : ASK("cuMemcpyDtoHAsync_v2", to, range->base, range->bytes, stream.handle);
}

int write_marker(unsigned marker, uint32_t value, struct stream_name stream) {
  uint64_t at = markers_on_device + marker * sizeof(uint32_t);
  return stream.per_thread ? ASK("cuStreamWriteValue32_v2_ptsz", stream.handle, at, value, 0)
                           : ASK("cuStreamWriteValue32_v2", stream.handle, at, value, 0);
}

uint32_t marker(unsigned marker) {
  return atomic_load_explicit((_Atomic uint32_t *)(void *)memory + marker, memory_order_acquire);
}

// ---- what can be reached without reading --------------------------------------------------------

struct target {
  uint64_t base;
  uint32_t serial;
};
struct searched {
  uint64_t bytes, spans;
  uint64_t next; // offset at which its next image is searched
  uint32_t serial;
  bool is_known, is_more; // is_more: than there is room for, while it is read
  unsigned count;
  struct target targets[MOST_TARGETS];
};
static MUTEX(lock);
static ZERO_IN_CHILD struct handle_table table; // by the ranges' bases

static struct searched *searched_of(const struct range *range) {
  struct handle_row *row = find_handle(&table, range->base);
  struct searched *item = row != NULL ? row->object : NULL;
  return item != NULL && item->serial == range->serial && item->bytes == range->bytes ? item : NULL;
}

void search_begins(const struct range *range) {
  if (!selection.when.in_stream)
    return;
  HOLD(lock);
  struct handle_row *row = find_handle(&table, range->base);
  struct searched *item = row != NULL ? row->object : calloc(1, sizeof *item);
  if (item != NULL && (row != NULL || add_handle(&table, range->base, item)))
    *item = (struct searched){.bytes = range->bytes, .serial = range->serial};
  else if (row == NULL)
    free(item);
}

static bool add_target(struct searched *item, const struct range *range) {
  unsigned n = 0;
  while (n < item->count && item->targets[n].base != range->base)
    n++;
  if (n == MOST_TARGETS)
    return false;
  item->targets[n] = (struct target){range->base, range->serial};
  item->count += n == item->count;
  return true;
}

void range_leads_to(const struct range *range, const uint8_t *data, size_t bytes) {
  struct range named[MOST_TARGETS];
  size_t count;
  if (!selection.when.in_stream)
    return;
  bool is_all = memory_named(data, bytes, named, MOST_TARGETS, &count);
  HOLD(lock);
  struct searched *item = searched_of(range);
  if (item == NULL)
    return;
  item->is_more = item->is_more || !is_all;
  for (size_t n = 0; n < count; n++)
    item->is_more = !add_target(item, &named[n]) || item->is_more;
}

void range_was_searched(const struct range *range, uint64_t spans) {
  if (!selection.when.in_stream)
    return;
  HOLD(lock);
  struct searched *item = searched_of(range);
  if (item == NULL)
    return;
  item->spans = spans;
  item->is_known = !item->is_more;
}

// Whether words lead only where the last search has led.
static bool leads_nowhere_else(const struct searched *item, const uint8_t *data, size_t bytes) {
  struct range named[MOST_TARGETS];
  size_t count;
  if (!memory_leads_anywhere(data, bytes))
    return true;
  bool is_known = memory_named(data, bytes, named, MOST_TARGETS, &count);
  for (size_t n = 0; n < count && is_known; n++) {
    unsigned m = 0;
    while (m < item->count &&
           (item->targets[m].base != named[n].base || item->targets[m].serial != named[n].serial))
      m++;
    is_known = m < item->count;
  }
  return is_known;
}

void search_image(const struct range *range, uint64_t position, uint64_t most_bytes) {
  HOLD(lock);
  struct searched *item = searched_of(range);
  if (item == NULL)
    return;
  uint64_t at = item->next < range->bytes ? item->next : 0, left = range->bytes - at;
  uint64_t bytes = left < most_bytes ? left : most_bytes;
  item->next = at + bytes;
  if (!leads_nowhere_else(item, image_at(position + at), bytes))
    item->is_known = false;
}

bool range_targets(const struct range *range, struct range targets[MOST_TARGETS], unsigned *count) {
  HOLD(lock);
  const struct searched *item = searched_of(range);
  *count = 0;
  if (item == NULL || !item->is_known || item->spans != memory_spans())
    return false;
  for (unsigned n = 0; n < item->count; n++)
    if (!memory_find(item->targets[n].base, &targets[n]) || targets[n].serial != item->targets[n].serial)
      return false; // what is there now was not found by a search
  *count = item->count;
  return true;
}
