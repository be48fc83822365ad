// Copies of memory in stream order. What the driver's documentation says of the calls, of which this is made:
//
// - cuMemcpyDtoHAsync with page-locked host memory returns before the copy is done, and the copy is done in
//   the order of its stream: after all work before it, before the launch that follows. In the legacy default
//   stream it is ordered as that launch is, so no stream waits for another that would not have.
// - cuMemHostRegister page-locks memory that the process has; PORTABLE is for all contexts, DEVICEMAP gives
//   it an address on the device. What was copied there is the process's, also when the context is lost.
// - cuStreamWriteValue32 writes a word when the stream comes to it, after a fence for the whole system: who
//   sees the word sees the copies before it. An event could not be asked once the context is lost.
// - Nothing is said of memory that is shared with another process. Linux pins pages of a memfd, and refuses
//   those of files (since 6.5), so `--when crash` takes a memfd; where the driver does not register it,
//   launches are waited for.
// - None of them is allowed in a stream that is captured, or beside a capture in the legacy stream: no image
//   is made while any capture is under way.
//
// Not yet seen on a GPU (GT-COPIES-BEFORE-A-FAULT, GT-REGISTER-SHARED).
#include "contents/images.h"

#include "base/handles.h"
#include "base/selection.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "objects/objects.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ALIGNMENT = 64, MARKER_BYTES = MARKERS * sizeof(uint32_t) + SCANS * FLAGS_BYTES };
static const uint64_t usual_room = (uint64_t)64 << 20;

// The table, then `memory`: markers, flags of scans, images. NULL `memory`: there is no context for it.
static ZERO_IN_CHILD uint8_t *table, *memory;
static ZERO_IN_CHILD bool may_be_used_again; // no stream writes there
static ZERO_IN_CHILD uint64_t room, head, context_of_memory, markers_on_device;
static ZERO_IN_CHILD bool is_refused;

static bool is_shared(void) { return (selection.when.triggers & WHEN_CRASH) != 0; }

// Real pages, never holes: where there are none left, that would be a SIGBUS at a later store. -1: no memory.
static int shared_memory(size_t bytes) {
  enum { CLOSE_ON_EXEC = 1 }; // MFD_CLOEXEC; older libraries have no memfd_create
  int descriptor = (int)syscall(SYS_memfd_create, "replay", CLOSE_ON_EXEC);
  if (descriptor >= 0 &&
      (ftruncate(descriptor, (off_t)bytes) != 0 || fallocate(descriptor, 0, 0, (off_t)bytes) != 0)) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

static bool register_images(uint8_t *at) {
  enum { PORTABLE = 1, DEVICEMAP = 2 }; // CU_MEMHOSTREGISTER_...
  memset(at, 0, MARKER_BYTES);
  if (ASK("cuMemHostRegister_v2", word(at), MARKER_BYTES + room, PORTABLE | DEVICEMAP) != SUCCESS)
    return false;
  if (ASK("cuMemHostGetDevicePointer_v2", word(&markers_on_device), word(at), 0) == SUCCESS)
    return true;
  ASK("cuMemHostUnregister", word(at));
  return false;
}

// With --memory the images get what is left by half, so that there is some for larger and later tables.
static bool choose_room(size_t table_bytes) {
  enum { FEWEST_BYTES = 64 << 10, PAGE_BYTES = 4096 };
  uint64_t limit = selection.when.memory, others = table_bytes + MARKER_BYTES;
  room = selection.when.ring_room != 0 ? selection.when.ring_room : usual_room;
  if (limit != 0 && have_room()) {
    uint64_t taken = atomic_load(&rooms.taken), left = limit > taken ? (limit - taken) / 2 : 0;
    uint64_t most = left > others ? (left - others) / PAGE_BYTES * PAGE_BYTES : 0;
    room = room < most ? room : most;
  }
  return (limit == 0 || room >= FEWEST_BYTES) && take_room(others + room);
}

static bool make_images(size_t table_bytes) {
  size_t bytes = table_bytes + MARKER_BYTES + room;
  int descriptor = is_shared() ? shared_memory(bytes) : -1;
  if (is_shared() && descriptor < 0)
    return false;
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, descriptor, 0);
  uint8_t *images = (uint8_t *)mapped + table_bytes;
  bool made = mapped != MAP_FAILED && madvise(mapped, bytes, MADV_DONTFORK) == 0 && register_images(images);
  if (made && descriptor >= 0 && !launcher_keeps(descriptor)) {
    made = false;
    if (ASK("cuMemHostUnregister", word(images)) != SUCCESS)
      mapped = MAP_FAILED; // the driver still has it
  }
  if (made)
    table = mapped;
  else if (mapped != MAP_FAILED) {
    munmap(mapped, bytes);
    give_room(bytes);
  }
  if (descriptor >= 0)
    close(descriptor);
  return made;
}

bool images_can_be_made(uint64_t context, size_t table_bytes) {
  if (memory != NULL || is_refused || context == 0)
    return memory != NULL && context == context_of_memory;
  KEEP_ERRNO;
  if (!may_be_used_again && !choose_room(table_bytes)) {
    is_refused = true;
    return false;
  }
  is_refused = may_be_used_again ? !register_images(table + table_bytes) : !make_images(table_bytes);
  if (is_refused)
    return false;
  memory = table + table_bytes;
  context_of_memory = context;
  scans_begin();
  return true;
}

void *table_of_images(void) { return table; }

bool images_are_there(void) { return memory != NULL; }

void images_end(uint64_t context, bool are_written) {
  if (memory == NULL || (context != 0 && context != context_of_memory))
    return;
  // Where it stays registered the device may still write there.
  may_be_used_again = !are_written && ASK("cuMemHostUnregister", word(memory)) == SUCCESS;
  if (may_be_used_again && !is_shared())
    madvise(memory, MARKER_BYTES + room, MADV_DONTNEED);
  memory = NULL;
  scans_end();
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

static uint64_t flags_of(unsigned scan) { return MARKERS * sizeof(uint32_t) + (uint64_t)scan * FLAGS_BYTES; }

int begin_scan(unsigned scan, const struct range *range, struct stream_name stream, uint8_t wanted,
               unsigned found) {
  return scan_range(range, stream, markers_on_device + flags_of(scan), wanted,
                    markers_on_device + flags_of(found));
}

int take_image_if(unsigned found, const struct range *range, struct stream_name stream, uint64_t position) {
  return copy_if(range, stream, markers_on_device + flags_of(found),
                 markers_on_device + MARKER_BYTES + position % room);
}

void forget_scan(unsigned scan) { memset(memory + flags_of(scan), 0, FLAGS_BYTES); }

uint8_t found_by_scan(unsigned scan) {
  const uint8_t *flags = memory + flags_of(scan);
  uint8_t bits = 0;
  for (unsigned bit = 0; bit < FLAGS_BYTES; bit++)
    bits |= (uint8_t)((flags[bit] != 0) << bit);
  return bits;
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
static ZERO_IN_CHILD struct handle_table all_searched; // by the ranges' bases

static struct searched *searched_of(const struct range *range) {
  struct handle_row *row = find_handle(&all_searched, range->base);
  struct searched *item = row != NULL ? row->object : NULL;
  return item != NULL && item->serial == range->serial && item->bytes == range->bytes ? item : NULL;
}

void search_begins(const struct range *range) {
  if (!selection.when.in_stream)
    return;
  HOLD(lock);
  struct handle_row *row = find_handle(&all_searched, range->base);
  struct searched *item = row != NULL ? row->object : room_for(sizeof *item);
  if (item != NULL && (row != NULL || add_handle(&all_searched, range->base, item)))
    *item = (struct searched){.bytes = range->bytes, .serial = range->serial};
  else if (row == NULL && item != NULL) {
    give_room(sizeof *item);
    free(item);
  }
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
