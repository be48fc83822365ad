// Reads contents of memory into the blobs file: before the first touch inside a window, and at its end. Of a
// range that was read before only what has changed since then is written.

#include "base/selection.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "record/writer.h"

#include <stdio.h>

atomic_bool host_memory_is_pending;
static const char no_memory[] = "no memory for the copy";
static uint64_t bytes_copied; // into the capture: what --max-bytes limits
// How a copy goes on, piece by piece.
struct reading {
  struct copy_writer writer;
  struct copied *copied;
  struct word_spans spans;
  struct range_list *reached; // NULL: pointers are not followed
  bool compare;               // chunks that are as in the copy before are not written
  bool words_are_known;       // of chunks that are as in the copy before
  bool over_limit;
};

static bool within_limit(struct reading *reading, size_t bytes) {
  reading->over_limit =
      reading->over_limit || (selection.max_bytes != 0 && bytes_copied + bytes > selection.max_bytes);
  bytes_copied += reading->over_limit ? 0 : bytes;
  return !reading->over_limit;
}

static bool add_run(struct reading *reading, struct piece *piece, size_t last, size_t end, size_t bytes) {
  if (!within_limit(reading, bytes))
    return false;
  add_to_piece(piece, last - (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, end - bytes, bytes);
  return true;
}

// The chunks of a piece that was read and hashed. False: this copy has ended.
static bool take_chunks(struct reading *reading, struct piece *piece) {
  struct copied *copied = reading->copied;
  const uint8_t *data = piece->data;
  size_t first = piece->first_chunk, bytes = piece->bytes;
  size_t run = 0; // changed bytes in front of `at` that are not taken yet
  for (size_t at = 0, chunk = first; at < bytes; at += CHUNK_BYTES, chunk++) {
    size_t length = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
    struct hash hash = piece->hashes[chunk - first];
    bool same = reading->compare && memcmp(&hash, &copied->hashes[chunk], sizeof hash) == 0;
    copied->hashes[chunk] = hash;
    if (selection.reach == REACH_REACHABLE && !(same && reading->words_are_known))
      copied->holds_words[chunk] = memory_may_reach(data + at, length, &reading->spans);
    if (reading->reached != NULL && copied->holds_words[chunk])
      memory_reach(data + at, length, reading->reached);
    if (!same) {
      run += length;
    } else if (run > 0) {
      if (!add_run(reading, piece, chunk, at, run))
        return false;
      run = 0;
    }
  }
  return run == 0 || add_run(reading, piece, first + (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, bytes, run);
}

// Takes the piece and has it written.
static bool take_piece(struct reading *reading, struct piece *piece) {
  return take_chunks(reading, piece) && (piece->entry_count == 0 || write_piece(&reading->writer, piece));
}

// One that is neither being written nor hashed; with no room for more, one that has been.
static struct piece *free_piece(struct reading *reading, const struct piece *hashed) {
  for (size_t n = 0; n < PIECES; n++)
    if (&pieces[n] != reading->writer.being_written && &pieces[n] != hashed && has_room(&pieces[n]))
      return &pieces[n];
  struct piece *written =
      reading->writer.being_written; // NULL when only one has room, and that one is being hashed
  return written != NULL && finish_pieces(&reading->writer) ? written : NULL;
}

static int read_range(struct reading *reading) {
  const struct range *range = reading->writer.range;
  struct piece *hashed = NULL; // or on its way to be; nothing was taken of it yet
  int result = SUCCESS;
  for (uint64_t offset = 0; offset < range->bytes && writer_is_open(); offset += PIECE_BYTES) {
    size_t bytes = piece_bytes(range, offset);
    struct piece *piece = free_piece(reading, hashed);
    if (piece == NULL && hashed != NULL) {
      struct piece *last = hashed;
      hashed = NULL;
      wait_for_hashes();
      if (!take_piece(reading, last))
        break;
      piece = free_piece(reading, NULL);
    }
    if (piece == NULL)
      break;
    begin_piece(piece, (size_t)(offset / CHUNK_BYTES), bytes);
    result = read_piece(range, range->base + offset, bytes, piece->data);
    if (result != SUCCESS)
      break;
    atomic_fetch_add(&perturbation.copied_bytes, bytes);
    if (range->host_visible)
      host_contents_were_read(range, offset, piece->data, bytes, reading->writer.moment,
                              reading->writer.call);
    hash_piece(piece, offset + bytes < range->bytes);
    struct piece *last = hashed;
    hashed = piece;
    if (last != NULL && !take_piece(reading, last)) {
      hashed = NULL;
      break;
    }
  }
  wait_for_hashes();
  if (hashed != NULL && result == SUCCESS && writer_is_open())
    take_piece(reading, hashed);
  return result;
}

static bool is_inside(const struct word_spans *inner, const struct word_spans *outer) {
  return inner->address - outer->address <= outer->address_bytes - inner->address_bytes &&
         inner->address_bytes <= outer->address_bytes &&
         (inner->handles == 0 || (inner->handle - outer->handle <= outer->handles - inner->handles &&
                                  inner->handles <= outer->handles));
}

static void skip(const struct range *range, uint64_t call) {
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
  reading.spans = memory_word_spans();
  reading.reached = range->kind == RANGE_ARRAY ? NULL : reached; // texels are no pointers
  reading.compare = known;
  reading.over_limit = false;
  begin_copy(&reading.writer, range, moment, call, known);
  reading.words_are_known = known && is_inside(&reading.spans, &copied->spans);
  if (reading.words_are_known)
    reading.spans = copied->spans; // of all chunks alike
  copied->spans = reading.spans;
  copied->whole = false;
  bool pushed = push_context_of(range);
  int result = read_range(&reading);
  finish_pieces(&reading.writer);
  if (pushed)
    pop_context();
  if (result != SUCCESS) {
    char why[40];
    snprintf(why, sizeof why, "the driver answered %d", result);
    note_not_read(range, moment, call, why);
  } else if (reading.over_limit) {
    skip(range, call);
  } else if (writer_is_open()) {
    copied->whole = end_copy(&reading.writer);
  }
}

void copy_contents(struct range_list *list, enum moment moment, uint64_t call, bool follow) {
  const char *problem = has_room(&pieces[0]) ? NULL : no_memory;
  if (problem == NULL && device_becomes_idle(list, &problem))
    atomic_store(&host_memory_is_pending, false);
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
  end_copy_threads();
  atomic_fetch_add(&perturbation.copy_ns, now_ns() - begin_ns);
}
