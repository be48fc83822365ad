// What the host writes into pinned, registered and managed memory inside a window, which no call tells.
//
// Of such memory that the window has touched a copy is kept. Before a call that may read it, memory and copy
// are compared; what differs is recorded (CHANGED) and replayed before that call. Where the application
// waited for the device, they are compared as well (SEEN): what a kernel wrote is then known before the host
// writes over it.
//
// While a kernel is at work the host may write, too. What has changed before anything waits for the device is
// either's (OPEN); what changes from then on is the device's.
//
// Pinned memory is looked at while kernels run: the host's own writes are there. Only when something differs,
// or when managed memory is concerned, which some devices forbid to touch meanwhile, is it waited for.
#include "contents/copy.h"
#include "driver/real.h"
#include "record/writer.h"

#include <sys/mman.h>

#ifndef LOOKING_LIMIT_MS
#define LOOKING_LIMIT_MS 20000 // of one window, in all; from then on as long as the program itself takes
#endif
static const uint64_t kept_limit_bytes = (uint64_t)1 << 30;
enum {
  SMALL_BYTES = 64 << 10, // taken whole where it cannot be told what was written: mailboxes and flags
  GAP_BYTES = 64,         // equal bytes between two stretches that are recorded as one
  OPEN_STRETCHES = 1024   // of one piece; what follows is taken for one
};

// Used by the thread that closed the gate.
struct kept {
  struct range range;
  uint8_t *copy; // NULL: there is none, a note says so
};
static struct kept *kept;
static size_t kept_capacity, kept_bytes;
static uint64_t looking_ns, first_look_ns, look_began_ns;
static bool limit_is_reached;
static _Atomic size_t kept_count;
static bool end_was_looked_at;        // since the device worked last; the gate is closed
static atomic_bool device_has_worked; // since memory and copies were compared with the device idle

void device_may_write_host_memory(void) {
  atomic_store(&device_has_worked, true);
  end_was_looked_at = false;
}

static void drop(struct kept *item) {
  if (item->copy != NULL) {
    munmap(item->copy, item->range.bytes);
    give_room(item->range.bytes);
    kept_bytes -= item->range.bytes;
  }
  size_t count = atomic_load(&kept_count) - 1;
  *item = kept[count];
  atomic_store(&kept_count, count);
}

void forget_host_contents(void) {
  while (atomic_load(&kept_count) > 0)
    drop(&kept[0]);
  looking_ns = first_look_ns = 0;
  end_was_looked_at = false;
  limit_is_reached = false;
}
IN_CHILD(forget_host_contents);

static bool still_exists(const struct kept *item) {
  struct range now;
  return memory_find(item->range.base, &now) && now.serial == item->range.serial;
}

static struct kept *find_kept(const struct range *range) {
  for (size_t n = 0; n < atomic_load(&kept_count); n++)
    if (kept[n].range.base == range->base && kept[n].range.serial == range->serial)
      return &kept[n];
  return NULL;
}

static struct kept *begin_to_keep(const struct range *range, uint64_t call) {
  size_t count = atomic_load(&kept_count);
  for (size_t n = 0; n < count;) // what was freed meanwhile
    if (still_exists(&kept[n]))
      n++;
    else
      drop(&kept[n]), count--;
  if (!HAS_ROOM(kept, count, kept_capacity))
    return NULL;
  void *copy = MAP_FAILED;
  if (range->bytes <= kept_limit_bytes - kept_bytes && take_room(range->bytes))
    copy =
        mmap(NULL, range->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (copy == MAP_FAILED)
    write_note(NOTE_HOST_WRITES_UNKNOWN, 0, call,
               "%lu bytes at 0x%lx: too much to look for what the host writes inside the window",
               range->bytes, range->base);
  else
    kept_bytes += range->bytes;
  kept[count] = (struct kept){*range, copy == MAP_FAILED ? NULL : copy};
  atomic_store(&kept_count, count + 1);
  return &kept[count];
}

// ---- comparing ----------------------------------------------------------------------------------

// First position at or after `at` where the two differ; `bytes` when there is none.
static size_t next_difference(const uint8_t *one, const uint8_t *other, size_t at, size_t bytes) {
  enum { BLOCK = 4096 };
  while (at < bytes) {
    size_t length = bytes - at < BLOCK ? bytes - at : BLOCK;
    if (memcmp(one + at, other + at, length) != 0) {
      while (one[at] == other[at])
        at++;
      return at;
    }
    at += length;
  }
  return bytes;
}

static size_t end_of_difference(const uint8_t *one, const uint8_t *other, size_t at, size_t bytes) {
  size_t end = at + 1;
  for (size_t n = end; n < bytes && n < end + GAP_BYTES; n++)
    if (one[n] != other[n])
      end = n + 1;
  return end;
}

// Records how `now` differs from the copy, which then equals it.
static void record_changes(struct kept *item, uint64_t offset, const uint8_t *now, size_t bytes,
                           enum moment moment, uint64_t call, struct range_list *reached) {
  uint8_t *copy = item->copy + offset;
  for (size_t at = next_difference(now, copy, 0, bytes); at < bytes;) {
    size_t end = end_of_difference(now, copy, at, bytes);
    write_contents(&item->range, offset + at, now + at, end - at, moment, call);
    size_t word = at & ~(size_t)7; // bases are aligned; a pointer may have changed in one byte
    memcpy(copy + at, now + at, end - at);
    if (reached != NULL)
      memory_reach(now + word,
                   (end - word + 7) / 8 * 8 <= bytes - word ? (end - word + 7) / 8 * 8 : bytes - word,
                   reached);
    at = next_difference(now, copy, end, bytes);
  }
}

void host_contents_were_read(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                             enum moment moment, uint64_t call) {
  struct kept *item = find_kept(range);
  if (moment == MOMENT_BEFORE) {
    if (item == NULL)
      item = begin_to_keep(range, call);
    if (item != NULL && item->copy != NULL)
      memcpy(item->copy + offset, data, bytes);
  } else if (item != NULL && item->copy != NULL && !atomic_load(&device_has_worked)) {
    // The end. The device has done nothing since the last look, so this is the host's.
    record_changes(item, offset, data, bytes, MOMENT_CHANGED, call + 1, NULL);
  } else if (item != NULL && item->copy != NULL && end_was_looked_at) {
    record_changes(item, offset, data, bytes, MOMENT_SETTLED, call + 1, NULL);
  }
}

static bool differs(struct kept *item) {
  for (uint64_t offset = 0; offset < item->range.bytes; offset += PIECE_BYTES) {
    size_t bytes = piece_bytes(&item->range, offset);
    int result;
    const uint8_t *now = read_contents(&item->range, offset, bytes, &result);
    if (now != NULL && memcmp(now, item->copy + offset, bytes) != 0)
      return true;
  }
  return false;
}

static void look_at(struct kept *item, enum moment moment, uint64_t call, bool whole,
                    struct range_list *reached) {
  bool pushed = push_context_of(&item->range);
  for (uint64_t offset = 0; offset < item->range.bytes && writer_is_open(); offset += PIECE_BYTES) {
    size_t bytes = piece_bytes(&item->range, offset);
    int result;
    const uint8_t *now = read_contents(&item->range, offset, bytes, &result);
    if (now == NULL) {
      write_note(NOTE_HOST_WRITES_UNKNOWN, 0, call, "%lu bytes at 0x%lx: the driver answered %d",
                 item->range.bytes, item->range.base, result);
      break;
    }
    if (whole && bytes <= SMALL_BYTES) { // the host may have put back what the device wrote
      write_span(&item->range, offset, bytes, MOMENT_OPEN, call, UINT64_MAX, 0);
      write_contents(&item->range, offset, now, bytes, moment, call);
      memcpy(item->copy + offset, now, bytes);
      if (reached != NULL)
        memory_reach(now, bytes, reached);
    } else {
      record_changes(item, offset, now, bytes, moment, call, reached);
    }
  }
  if (pushed)
    pop_context();
}

// ---- while the device works ----------------------------------------------------------------------

// Whether the host may touch managed memory while a kernel runs: elsewhere that ends the program.
static bool managed_memory_is_shared(void) {
  enum { CONCURRENT_MANAGED_ACCESS = 89 }; // CUdevice_attribute
  return device_attribute(current_device(), CONCURRENT_MANAGED_ACCESS) > 0;
}

static void record_open_changes(const struct kept *item, uint64_t call) {
  const struct range *range = &item->range;
  for (uint64_t offset = 0; offset < range->bytes && writer_is_open(); offset += PIECE_BYTES) {
    size_t bytes = piece_bytes(range, offset);
    const uint8_t *now = read_while_device_works(range, offset, bytes), *copy = item->copy + offset;
    unsigned stretches = 0;
    size_t end;
    for (size_t at = now == NULL ? 0 : next_difference(now, copy, 0, bytes); at < bytes;) {
      bool to_the_end = now == NULL || ++stretches == OPEN_STRETCHES;
      end = to_the_end ? bytes : end_of_difference(now, copy, at, bytes);
      write_span(range, offset + at, end - at, MOMENT_OPEN, call, UINT64_MAX, 0);
      at = to_the_end ? bytes : next_difference(now, copy, end, bytes);
    }
  }
}

// Nothing has waited for the device yet, or the call that does is only about to. The gate is closed.
static void look_while_device_works(uint64_t call) {
  bool shared = managed_memory_is_shared();
  for (size_t n = 0; n < atomic_load(&kept_count); n++)
    if (kept[n].copy != NULL && (shared || kept[n].range.kind == RANGE_HOST) && still_exists(&kept[n]))
      record_open_changes(&kept[n], call);
}

// ---- when ---------------------------------------------------------------------------------------

bool host_writes_matter(void) { return atomic_load(&kept_count) > 0; }

static void note_the_limit(uint64_t call) {
  enum { NAMED = 8 };
  size_t named = 0;
  for (size_t n = 0; n < atomic_load(&kept_count) && named < NAMED; n++)
    if (kept[n].copy != NULL) // of the others a note says so already
      write_note(NOTE_HOST_WRITES_UNKNOWN, 0, call,
                 "%lu bytes at 0x%lx%s: from here on what the host writes there is not looked for: that has "
                 "taken %d s, and more than the program itself",
                 kept[n].range.bytes, kept[n].range.base, ++named == NAMED ? ", and others" : "",
                 LOOKING_LIMIT_MS / 1000);
}

// Beyond the limit, looking may take as long as the program has taken meanwhile, so half of the time.
static bool may_look(uint64_t call) {
  look_began_ns = now_ns();
  if (first_look_ns == 0)
    first_look_ns = look_began_ns;
  if (!limit_is_reached && looking_ns >= LOOKING_LIMIT_MS * (uint64_t)1000000 &&
      looking_ns >= (look_began_ns - first_look_ns) / 2) {
    note_the_limit(call);
    limit_is_reached = true; // for good: what was missed once is not known any more
  }
  return !limit_is_reached;
}

static void end_look(void) { looking_ns += now_ns() - look_began_ns; }

static bool wait_until_idle(uint64_t call) {
  struct range_list list = {0};
  const char *problem = NULL;
  for (size_t n = 0; n < atomic_load(&kept_count); n++)
    list_append(&list, &kept[n].range);
  bool idle = device_becomes_idle(&list, &problem);
  list_free(&list);
  if (!idle)
    write_note(NOTE_HOST_WRITES_UNKNOWN, 0, call, "what the host wrote before this call: %s", problem);
  return idle;
}

void look_for_host_writes(struct call *call, struct range_list *reached, bool follow) {
  if (!may_look(call->number))
    return;
  bool worked = atomic_load(&device_has_worked);
  if (worked)
    look_while_device_works(call->number);
  bool idle = !worked || device_is_idle(), whole = worked && idle;
  for (size_t n = 0; n < atomic_load(&kept_count); n++) {
    struct kept *item = &kept[n];
    if (item->copy == NULL || !still_exists(item))
      continue;
    if (!idle && (item->range.kind != RANGE_HOST || differs(item))) {
      if (!wait_until_idle(call->number))
        break;
      idle = true;
    }
    if (idle)
      look_at(item, worked ? MOMENT_SETTLED : MOMENT_CHANGED, call->number, whole, follow ? reached : NULL);
  }
  if (idle)
    atomic_store(&device_has_worked, false);
  end_look();
}

// For a call that waits for the device. True: the gate is closed.
static inline bool begin_to_look(struct call *call) {
  return atomic_load(&kept_count) > 0 && atomic_load(&device_has_worked) &&
         (call->function->flags & FLAG_WAITS) != 0 && atomic_load(&captures_under_way) == 0 &&
         close_gate(call->thread, call->number);
}

void look_before_wait(struct call *call) {
  if (!begin_to_look(call))
    return;
  if (current_mode() == MODE_OPEN && may_look(call->number)) {
    look_while_device_works(call->number);
    end_look();
  }
  open_gate(call->thread);
}

void look_before_end(uint64_t call) {
  end_was_looked_at = false;
  if (atomic_load(&kept_count) == 0 || !atomic_load(&device_has_worked) || !may_look(call))
    return;
  look_while_device_works(call);
  end_was_looked_at = true;
  end_look();
}

void look_after_wait(struct call *call) {
  if (!begin_to_look(call))
    return;
  if (current_mode() == MODE_OPEN && may_look(call->number) && device_is_idle()) {
    for (size_t n = 0; n < atomic_load(&kept_count); n++)
      if (kept[n].copy != NULL && still_exists(&kept[n]))
        look_at(&kept[n], MOMENT_SEEN, call->number, false, NULL);
    atomic_store(&device_has_worked, false);
    end_look();
  }
  open_gate(call->thread);
}
