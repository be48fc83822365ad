// Reads contents of memory into the blobs file: before the first touch inside a window, and at its end. Of a
// range that was read before only what has changed since then is written, and only that is copied where the
// device can tell.
#define _GNU_SOURCE
#include "contents/contents.h"

#include "base/clock.h"
#include "base/selection.h"
#include "base/state.h"
#include "contents/copy.h"
#include "contents/gate.h"
#include "contents/host_writes.h"
#include "contents/idle.h"
#include "contents/reading.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "memory/reach.h"
#include "record/writer.h"

#include <stdlib.h>
#include <string.h>

atomic_bool host_memory_is_pending;
static uint64_t bytes_copied; // into the capture: what --max-bytes limits
// How a copy goes on, piece by piece.
struct reading {
  struct copy_writer writer;
  struct copied *copied;
  struct word_spans spans;
  struct range_list *reached;  // NULL: pointers are not followed
  const struct hash *expected; // by the device; NULL: not asked
  bool compare;                // chunks that are as in the copy before are not written
  bool words_are_known;        // of chunks that are as in the copy before
  bool over_limit, disagrees;
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
    if (reading->expected != NULL && memcmp(&hash, &reading->expected[chunk], sizeof hash) != 0) {
      reading->disagrees = true;
      return false;
    }
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

// Takes the piece and has it written. One is hashed while another is read and taken: the longer time counts.
static bool take_piece(struct reading *reading, struct piece *piece) {
  uint64_t begin_ns = now_ns();
  bool goes_on = take_chunks(reading, piece);
  uint64_t copying_ns = piece->read_ns + now_ns() - begin_ns;
  if (reading->writer.range->kind == RANGE_DEVICE && piece->bytes == PIECE_BYTES)
    host_look_took(copying_ns > piece->hash_ns ? copying_ns : piece->hash_ns, piece->bytes);
  return goes_on && (piece->entry_count == 0 || write_piece(&reading->writer, piece));
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

static int take_stretch(struct reading *reading, size_t first, uint64_t end) {
  const struct range *range = reading->writer.range;
  struct piece *hashed = NULL; // or on its way to be; nothing was taken of it yet
  int result = SUCCESS;
  for (uint64_t offset = first * (uint64_t)CHUNK_BYTES; offset < end && writer_is_open();
       offset += PIECE_BYTES) {
    size_t bytes = end - offset < PIECE_BYTES ? (size_t)(end - offset) : PIECE_BYTES;
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
    uint64_t begin_ns = now_ns();
    result = read_piece(range, range->base + offset, bytes, piece->data);
    if (result != SUCCESS)
      break;
    atomic_fetch_add(&perturbation.copied_bytes, bytes);
    if (range->host_visible)
      host_contents_were_read(range, offset, piece->data, bytes, reading->writer.moment,
                              reading->writer.call);
    piece->read_ns = now_ns() - begin_ns;
    hash_piece(piece, offset + bytes < end);
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

// Reads the chunks that the device says have changed, and those whose pointers are to be followed. What a
// window begins with is looked through even when no call was made since the last one ended: other processes,
// other devices and network cards write device memory with no call of this process.
static int take_changed(struct reading *reading) {
  const struct range *range = reading->writer.range;
  bool words_are_known = reading->words_are_known;
  struct copied *copied = reading->copied;
  size_t count = (size_t)((range->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES), first = 0;
  int result = SUCCESS;
  for (size_t n = 0; n <= count && result == SUCCESS && !reading->over_limit && !reading->disagrees; n++) {
    bool wanted = false;
    if (n < count) {
      wanted = memcmp(&copied->hashes[n], &reading->expected[n], sizeof *copied->hashes) != 0 ||
               (reading->reached != NULL && (!words_are_known || copied->holds_words[n]));
      if (!wanted && !words_are_known)
        copied->holds_words[n] = 1;
    }
    if (wanted)
      continue;
    if (first < n) {
      uint64_t end = n * (uint64_t)CHUNK_BYTES;
      result = take_stretch(reading, first, end < range->bytes ? end : range->bytes);
    }
    first = n + 1;
  }
  return result;
}

static bool is_inside(const struct word_spans *inner, const struct word_spans *outer) {
  return inner->address - outer->address <= outer->address_bytes - inner->address_bytes &&
         inner->address_bytes <= outer->address_bytes &&
         (inner->handles == 0 || (inner->handle - outer->handle <= outer->handles - inner->handles &&
                                  inner->handles <= outer->handles));
}

static int read_range(struct reading *reading) {
  const struct range *range = reading->writer.range;
  size_t count = (size_t)((range->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
  struct hash *hashes = NULL;
  if (reading->compare && !range->host_visible && range->kind != RANGE_ARRAY && can_hash_on_device(range))
    hashes = malloc(count * sizeof *hashes);
  int result = SUCCESS;
  if (hashes != NULL && hash_on_device(range, hashes, reading->writer.call)) {
    reading->expected = hashes;
    result = take_changed(reading);
    reading->expected = NULL;
    if (!reading->disagrees) {
      free(hashes);
      return result;
    }
    device_hash_is_wrong(reading->writer.call);
    reading->disagrees = reading->compare = false;
    if (!finish_pieces(&reading->writer))
      return SUCCESS;
    begin_copy(&reading->writer, range, reading->writer.moment, reading->writer.call, false);
  }
  free(hashes);
  return take_stretch(reading, 0, range->bytes);
}

static void skip(const struct range *range, uint64_t call) {
  write_note(NOTE_MEMORY_SKIPPED, 0, call, "%llu bytes at 0x%llx: the limit of %llu bytes is reached",
             (unsigned long long)range->bytes, (unsigned long long)range->base,
             (unsigned long long)selection.max_bytes);
  memory_mark(range->base, range->serial, RANGE_LOST);
}

static void copy_range(const struct range *range, enum moment moment, uint64_t call,
                       struct range_list *reached) {
  static struct reading reading; // too large for the stack of a small thread; the gate is closed
  struct copied *copied = copied_of(range);
  bool known = copied != NULL && copied->whole;
  if (copied == NULL) {
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "%llu bytes at 0x%llx: no memory for the copy",
               (unsigned long long)range->bytes, (unsigned long long)range->base);
    if (moment == MOMENT_BEFORE)
      memory_mark(range->base, range->serial, RANGE_LOST);
    return;
  }
  if (!known && selection.max_bytes != 0 && bytes_copied + range->bytes > selection.max_bytes) {
    skip(range, call);
    return;
  }
  reading.copied = copied;
  reading.spans = memory_word_spans();
  reading.reached = range->kind == RANGE_ARRAY ? NULL : reached; // texels are no pointers
  reading.expected = NULL;
  reading.compare = known;
  reading.over_limit = reading.disagrees = false;
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
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "%llu bytes at 0x%llx: the driver answered %d",
               (unsigned long long)range->bytes, (unsigned long long)range->base, result);
    if (moment == MOMENT_BEFORE)
      memory_mark(range->base, range->serial, RANGE_LOST);
  } else if (reading.over_limit) {
    skip(range, call);
  } else if (writer_is_open()) {
    copied->whole = end_copy(&reading.writer);
  }
}

void copy_contents(struct range_list *list, enum moment moment, uint64_t call, bool follow) {
  const char *problem = has_room(&pieces[0]) ? NULL : "no memory for the copy";
  if (problem == NULL) {
    uint64_t begin_ns = now_ns();
    gate_is_waiting_for_device(true);
    if (device_becomes_idle(list, &problem))
      atomic_store(&host_memory_is_pending, false);
    gate_is_waiting_for_device(false);
    atomic_fetch_add(&perturbation.waits, 1);
    atomic_fetch_add(&perturbation.wait_ns, now_ns() - begin_ns);
  }
  note_device_error(problem, moment, call);
  // A kernel with a wrong address may reach no memory at all.
  if (problem != NULL && problem != context_has_ended && list->count == 0 && moment == MOMENT_AFTER)
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "no allocation that could be read: %s", problem);
  uint64_t begin_ns = now_ns();
  // The list grows while it is read: what the contents point to is copied as well.
  for (size_t n = 0; n < list->count; n++) {
    struct range range = list->items[n];
    if (problem == NULL) {
      copy_range(&range, moment, call, follow ? list : NULL);
      continue;
    }
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "%llu bytes at 0x%llx: %s", (unsigned long long)range.bytes,
               (unsigned long long)range.base, problem);
    if (moment == MOMENT_BEFORE)
      memory_mark(range.base, range.serial, RANGE_LOST);
  }
  end_copy_threads();
  atomic_fetch_add(&perturbation.copy_ns, now_ns() - begin_ns);
  if (!writer_is_open()) // capture has stopped: nothing of it stays in the application
    end_device_hashing(0);
}
