// Reads contents of memory into the blobs file: before the first touch inside a window, and at its end. Of a
// range that was read before only what has changed since then is written.

#include "base/selection.h"
#include "contents/copy.h"
#include "contents/images.h"
#include "driver/real.h"
#include "record/writer.h"

#include <stdio.h>

atomic_bool host_memory_is_pending;
static const char no_memory[] = "no memory for the copy";
static uint64_t bytes_copied; // into the capture: what --max-bytes limits
static uint64_t left_out_bytes;
uint64_t bytes_left_out(void) { return left_out_bytes > 0 ? left_out_bytes + bytes_copied : 0; }
void forget_copied_bytes(void) { bytes_copied = left_out_bytes = 0; }
// How a copy goes on, piece by piece.
struct reading {
  struct copy_writer writer;
  struct copied *copied;
  struct range_list *reached; // NULL: pointers are not followed
  bool compare;               // chunks that are as in the copy before are not written
  bool reach_is_known;        // of chunks that are as in the copy before
  bool is_unchanged;          // nothing can have written it since
  bool over_limit;
};

static bool within_limit(struct reading *reading, size_t bytes) {
  reading->over_limit =
      reading->over_limit || (selection.max_bytes != 0 && bytes_copied + bytes > selection.max_bytes);
  bytes_copied += reading->over_limit ? 0 : bytes;
  return !reading->over_limit;
}

// Of a piece that was read: hashes and compares its chunks, and stores what has changed.
static void take_piece(struct copy_writer *writer, struct piece *piece) {
  struct reading *reading = (struct reading *)(void *)writer; // its first member
  struct copied *copied = reading->copied;
  for (size_t at = 0; at < piece->bytes; at += CHUNK_BYTES) {
    size_t length = piece->bytes - at < CHUNK_BYTES ? piece->bytes - at : CHUNK_BYTES;
    size_t chunk = piece->first_chunk + at / CHUNK_BYTES;
    struct hash hash = hash_chunk(piece->data + at, length);
    bool same = reading->compare && memcmp(&hash, &copied->hashes[chunk], sizeof hash) == 0;
    copied->hashes[chunk] = hash;
    if (!same || !reading->reach_is_known)
      copied->may_reach[chunk] = 1;
    if (reading->reached != NULL && copied->may_reach[chunk])
      copied->may_reach[chunk] = memory_reach(piece->data + at, length, reading->reached);
    if (reading->reached != NULL && copied->may_reach[chunk])
      range_leads_to(writer->range, piece->data + at, length);
    if (same)
      continue;
    note_nonfinite(copied, chunk, piece->data + at, length, writer->moment == MOMENT_AFTER);
    if (!within_limit(reading, length) || !store_chunk(piece, at, length))
      return;
    chunk_is_superseded(copied->blobs[chunk], length, copied->since[chunk]);
    copied->blobs[chunk] = piece->entries[piece->entry_count - 1].blob;
    copied->since[chunk] = atomic_load(&window_number);
  }
}

// Whether the copy before holds what is there now, and pointers in it need not be followed.
static bool is_as_before(const struct reading *reading, uint64_t offset, size_t bytes) {
  size_t first = (size_t)(offset / CHUNK_BYTES), count = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
  return reading->is_unchanged &&
         (reading->reached == NULL || memchr(reading->copied->may_reach + first, 1, count) == NULL);
}

static int read_range(struct reading *reading) {
  const struct range *range = reading->writer.range;
  int result = SUCCESS;
  unsigned turn = 0;
  for (uint64_t offset = 0; offset < range->bytes && writer_is_open(); offset += PIECE_BYTES) {
    size_t bytes = piece_bytes(range, offset);
    if (is_as_before(reading, offset, bytes))
      continue;
    struct piece *piece = &pieces[turn++ % PIECES];
    piece->first_chunk = (size_t)(offset / CHUNK_BYTES);
    piece->bytes = bytes;
    piece->entry_count = 0;
    piece->error = 0;
    result = read_piece(range, range->base + offset, bytes, piece->data);
    if (result != SUCCESS)
      break;
    atomic_fetch_add(&perturbation.copied_bytes, bytes);
    if (range->host_visible)
      host_contents_were_read(range, offset, piece->data, bytes, reading->writer.moment,
                              reading->writer.call);
    if (!finish_piece(&reading->writer, 0) || reading->over_limit)
      break;
    hand_over(&reading->writer, piece, offset + bytes == range->bytes, take_piece);
  }
  wait_for_piece();
  return result;
}

static void skip(const struct range *range, uint64_t call) {
  left_out_bytes += range->bytes;
  write_note(NOTE_MEMORY_SKIPPED, 0, call, "%lu bytes at 0x%lx: the limit of %lu bytes is reached",
             range->bytes, range->base, selection.max_bytes);
  memory_lose(range);
}

// What could not be read at first is not read later: it would not be what the window began with.
static void note_not_read(const struct range *range, enum moment moment, uint64_t call, const char *why) {
  write_note(NOTE_MEMORY_NOT_READ, 0, call, "%lu bytes at 0x%lx: %s", range->bytes, range->base, why);
  if (moment == MOMENT_BEFORE)
    memory_lose(range);
}

static void copy_range(const struct range *range, enum moment moment, uint64_t call,
                       struct range_list *reached) {
  static struct reading reading; // too large for the stack of a small thread; the gate is closed
  struct copied *copied = copied_of(range);
  bool known = copied != NULL && copied->whole;
  if (copied == NULL) {
    note_not_read(range, moment, call, no_memory);
    return;
  }
  if (!known && selection.max_bytes != 0 && bytes_copied + range->bytes > selection.max_bytes) {
    skip(range, call);
    return;
  }
  reading.copied = copied;
  reading.reached = range->kind == RANGE_ARRAY ? NULL : reached; // texels are no pointers
  reading.compare = known;
  reading.over_limit = false;
  reading.writer = (struct copy_writer){range, moment, call, COPY_FIRST | (known ? COPY_INHERITS : 0), NULL};
  uint64_t spans = memory_spans();
  reading.reach_is_known = known && copied->spans == spans;
  copied->spans = spans;
  uint64_t calls = range->host_visible ? 0 : touching_calls();
  reading.is_unchanged = reading.reach_is_known && calls != 0 && copied->calls == calls;
  copied->calls = calls;
  copied->whole = false;
  bool pushed = push_context_of(range);
  begin_nonfinite(copied, moment);
  if (reached != NULL)
    search_begins(range);
  int result = read_range(&reading);
  end_nonfinite(copied, moment);
  bool whole = result == SUCCESS && !reading.over_limit && writer_is_open();
  if (whole && reached != NULL)
    range_was_searched(range, spans);
  copied->whole = finish_piece(&reading.writer, whole ? COPY_LAST : 0) && whole;
  if (pushed)
    pop_context();
  if (result != SUCCESS) {
    char why[40];
    snprintf(why, sizeof why, "the driver answered %d", result);
    note_not_read(range, moment, call, why);
  } else if (reading.over_limit) {
    skip(range, call);
  }
}

void copy_contents(struct range_list *list, enum moment moment, uint64_t call, bool follow) {
  const char *problem = have_room() ? NULL : no_memory;
  if (problem == NULL && device_becomes_idle(list, &problem))
    atomic_store(&host_memory_is_pending, false);
  if (UNLIKELY(selection.when.triggers != 0) && moment == MOMENT_AFTER && problem == NULL)
    tell_recording(0);
  note_device_error(problem, moment, call);
  // A kernel with a wrong address may reach no memory at all.
  if (problem != NULL && problem != context_has_ended && list->count == 0 && moment == MOMENT_AFTER)
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "no allocation that could be read: %s", problem);
  uint64_t begin_ns = now_ns();
  // The list grows while it is read: what the contents point to is copied as well.
  for (size_t n = 0; n < list->count; n++) {
    struct range range = list->items[n];
    if (problem == NULL)
      copy_range(&range, moment, call, follow ? list : NULL);
    else
      note_not_read(&range, moment, call, problem);
  }
  atomic_fetch_add(&perturbation.copy_ns, now_ns() - begin_ns);
}
