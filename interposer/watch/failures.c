// Launches that were not waited for, when the device has failed: which one it was, and its window, written
// from what is in the process. Nothing is asked of the device, which is lost.
#include "arguments/arguments.h"
#include "base/selection.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "objects/objects.h"
#include "record/encode.h"
#include "watch/flights.h"
#include "watch/watch.h"

#include <stdio.h>

enum { MOST_STREAMS = 64 }; // that are told apart

bool is_sticky(int result) {
  static const int sticky[] = {STICKY_RESULTS};
  for (size_t n = 0; n < sizeof sticky / sizeof *sticky; n++)
    if (sticky[n] == result)
      return true;
  return false;
}

struct flight *flight_that_failed(unsigned *count) {
  const struct flight *seen[MOST_STREAMS];
  unsigned streams = 0;
  struct flight *found = NULL;
  *count = 0;
  for (uint64_t number = first_flight(); number <= last_flight(); number++) {
    struct flight *flight = flight_of(number);
    unsigned n = 0;
    if (has_ended(flight))
      continue;
    while (n < streams && !in_same_stream(seen[n], flight))
      n++;
    if (n < streams || streams == MOST_STREAMS)
      continue;
    seen[streams++] = flight;
    if (!has_begun(flight))
      continue;
    found = found == NULL ? flight : found;
    (*count)++;
  }
  return found;
}

// The device is lost, so what such pointers lead to cannot be had any more.
static void name_what_is_missing(const struct flight *flight, const struct image *image, uint64_t call) {
  struct range named[MOST_IMAGES];
  size_t count = 0;
  bool is_all = memory_named(image_at(image->position), image->range.bytes, named, MOST_IMAGES, &count);
  for (size_t n = 0; n < count; n++) {
    unsigned has = 0;
    while (has < flight->images_count && flight->images[has].range.base != named[n].base)
      has++;
    if (has == flight->images_count)
      write_note(NOTE_MEMORY_NOT_READ, 0, call, "%lu bytes at 0x%lx: a pointer to it came into 0x%lx later",
                 named[n].bytes, named[n].base, image->range.base);
  }
  if (!is_all)
    write_note(NOTE_MEMORY_NOT_READ, 0, call,
               "more than %lu allocations: pointers to them came into 0x%lx later", count, image->range.base);
}

static size_t chunk_bytes_at(const struct range *range, uint64_t chunk) {
  uint64_t left = range->bytes - chunk * CHUNK_BYTES;
  return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

// end: of images that were reserved by then; what is room before it may be overwritten.
static void write_image(const struct flight *flight, const struct image *image, enum moment moment,
                        uint64_t call, uint64_t end) {
  static struct piece piece; // too large for the stack of a small thread
  static struct copy_writer writer;
  const struct range *range = &image->range;
  uint64_t position = moment == MOMENT_BEFORE ? image->position : image->after;
  struct range now;
  const char *why = NULL;
  if (!memory_find(range->base, &now) || now.serial != range->serial)
    why = "it was freed before the launch was looked at";
  else if (position + image_room() < end)
    why = "the ring was too small to keep it (--ring)";
  if (why != NULL) {
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "%lu bytes at 0x%lx: %s", range->bytes, range->base, why);
    return;
  }
  writer = (struct copy_writer){range, moment, call, COPY_FIRST, NULL};
  for (uint64_t offset = 0; offset < range->bytes; offset += PIECE_BYTES) {
    piece = (struct piece){.data = (uint8_t *)(uintptr_t)image_at(position + offset),
                           .first_chunk = (size_t)(offset / CHUNK_BYTES),
                           .bytes = piece_bytes(range, offset)};
    for (size_t at = 0; at < piece.bytes && piece.error == 0; at += CHUNK_BYTES)
      store_chunk(&piece, at, piece.bytes - at < CHUNK_BYTES ? piece.bytes - at : CHUNK_BYTES);
    writer.piece = &piece;
    finish_piece(&writer, offset + piece.bytes == range->bytes ? COPY_LAST : 0);
    // No later copy refers to it: its place is free when the window falls out of the ring.
    for (uint32_t n = 0; n < piece.entry_count; n++)
      chunk_is_superseded(piece.entries[n].blob, chunk_bytes_at(range, piece.entries[n].chunk),
                          atomic_load(&window_number));
  }
  if (selection.reach == REACH_REACHABLE && moment == MOMENT_BEFORE)
    name_what_is_missing(flight, image, call);
}

struct told {
  struct flight *flight;
  const struct verdict *verdict;
  bool is_the_one;
  uint64_t end; // of images when it was made
};

static void write_flight(uint32_t window, uint64_t number, void *state) {
  struct told *told = state;
  struct flight *flight = told->flight;
  const struct verdict *verdict = told->verdict;
  int error = told->is_the_one ? verdict->error : 0;
  struct call call = {.thread = current_thread(),
                      .function = flight->function,
                      .arguments = flight->words,
                      .record_function = flight->record_function,
                      .kernel = flight->kernel,
                      .ordinal = flight->ordinal,
                      .flight = flight->number,
                      .number = number,
                      .window = window,
                      .packed = flight->has_packed ? flight->packed : NULL,
                      .packed_bytes = flight->packed_bytes};
  for (unsigned n = 0; n < flight->images_count; n++)
    write_image(flight, &flight->images[n], MOMENT_BEFORE, number, told->end);
  if (has_launch_config(flight->function)) {
    flight->config.attrs = flight->attributes_count > 0 ? word(flight->attributes) : 0;
    flight->words[0] = word(&flight->config);
  }
  write_note(NOTE_LAUNCH_MATCHED, call.record_function, number, "%lu %s", flight->ordinal,
             flight->kernel->name);
  call.attachments = take_scratch(&call, MAX_ATTACHMENTS * sizeof *call.attachments);
  attach_inputs(&call);
  launch_enter(&call);
  if (!encode_enter(&call))
    return;
  launch_is_described(&call);
  call.attachment_count = 0;
  if (flight->has_returned || error != 0 || !told->is_the_one)
    encode_leave(&call, told->is_the_one ? verdict->result : SUCCESS);
  if (error != 0)
    device_reports(error, number, verdict->messages);
  for (unsigned n = 0; n < flight->images_count; n++) {
    const struct range *range = &flight->images[n].range;
    if (verdict->has_outputs && has_passed(flight) && has_outputs(flight) && !flight->is_lost)
      write_image(flight, &flight->images[n], MOMENT_AFTER, number, told->end);
    else
      write_note(NOTE_MEMORY_NOT_READ, 0, number, "%lu bytes at 0x%lx: %s", range->bytes, range->base,
                 error != 0           ? "the device reports an error"
                 : has_passed(flight) ? "a launch that was not waited for"
                                      : "the launch has not ended");
  }
  flight->is_told = true;
  if (told->is_the_one && verdict->trigger != NULL)
    write_hit(verdict->trigger, flight->ordinal, flight->kernel->name, verdict->words, number);
}

bool tell_flight(struct flight *flight, const struct verdict *verdict) {
  uint64_t first = flight->number > kept_flights() ? flight->number - kept_flights() + 1 : 1;
  uint64_t last = flight->number;
  bool is_told = thread_has_scratch(current_thread());
  first = first < first_flight() ? first_flight() : first;
  for (uint64_t number = first; number <= last && is_told; number++) {
    struct told told = {flight_of(number), verdict, number == last, next_image()};
    if (told.flight->number != number || (told.flight->is_told && !told.is_the_one))
      continue;
    // Of one that has not ended, what comes after it in its stream was never copied, and other streams left
    // its images alone.
    if (told.is_the_one && !has_passed(flight))
      told.end = flight->next_image;
    is_told = tell_window(told.flight->ordinal, write_flight, &told);
  }
  return is_told;
}

// ---- the ring of --when crash -------------------------------------------------------------------

static bool reaches(const struct flight *flight, uint64_t base, uint64_t bytes) {
  for (unsigned n = 0; n < flight->images_count; n++) {
    const struct range *range = &flight->images[n].range;
    if (range->base < base + bytes && base < range->base + range->bytes)
      return true;
  }
  return bytes == 0;
}

static struct flight *in_ring(uint64_t number, uint64_t base, uint64_t bytes) {
  struct flight *flight = flight_of(number);
  return flight->number == number && !flight->is_told && reaches(flight, base, bytes) ? flight : NULL;
}

static uint64_t first_in_ring(void) {
  return last_flight() > kept_flights() ? last_flight() - kept_flights() + 1 : 1;
}

void tell_ring(uint64_t base, uint64_t bytes) {
  static const struct verdict verdict = {.has_outputs = true};
  const char *problem;
  uint64_t number = first_in_ring();
  if ((selection.when.triggers & WHEN_CRASH) == 0 || flights.items == NULL || watching_has_ended())
    return;
  while (number <= last_flight() && in_ring(number, base, bytes) == NULL)
    number++;
  if (number > last_flight())
    return;
  UNSEEN;
  bool can_be_told = atomic_load(&captures_under_way) == 0 && current_context() != 0 &&
                     thread_has_scratch(current_thread()) &&
                     device_becomes_idle(&(struct range_list){0}, &problem);
  if (!take_flights())
    return;
  for (number = first_in_ring(); number <= last_flight(); number++) {
    struct flight *flight = in_ring(number, base, bytes);
    if (flight == NULL)
      continue;
    struct told told = {flight, &verdict, false, next_image()};
    if (can_be_told && images_are_there())
      tell_window(flight->ordinal, write_flight, &told);
    flight->is_told = true;
  }
  give_flights();
}

// ---- when the device has failed -----------------------------------------------------------------

static ZERO_IN_CHILD atomic_bool is_told; // that it has

// refused: the flight of a launch that the driver has refused, 0: the device has failed. With the lock.
static void tell_failure(int result, uint64_t refused, bool is_error, const char *messages) {
  bool sticky = refused == 0;
  unsigned count = 1;
  struct flight *flight = refused != 0 ? flight_of(refused) : flight_that_failed(&count);
  int error = sticky ? result : 0;
  is_told = sticky;
  if (flight != NULL && images_are_there() && (refused == 0 || flight->number == refused)) {
    struct verdict verdict = {.trigger = !is_error               ? NULL
                                         : error == ERROR_ASSERT ? "assert"
                                                                 : "error",
                              .result = sticky ? SUCCESS : result,
                              .error = error,
                              .has_outputs = takes_outputs(),
                              .messages = messages};
    int length = snprintf(verdict.words, sizeof verdict.words,
                          sticky ? "the device reports error %d" : "the driver answered %d", result);
    if (count > 1)
      snprintf(verdict.words + length, sizeof verdict.words - (size_t)length,
               "; it is one of %u launches that were under way", count);
    tell_flight(flight, &verdict);
  }
}

void device_may_have_failed(struct call *call, int result) {
  bool sticky = is_sticky(result);
  uint64_t refused = call != NULL && !sticky ? call->flight : 0;
  bool is_error = (selection.when.triggers & WHEN_ERROR) != 0 ||
                  (result == ERROR_ASSERT && (selection.when.triggers & WHEN_ASSERT) != 0);
  // What the application does of it may be a crash.
  bool is_wanted = is_error || (sticky && (selection.when.triggers & WHEN_CRASH) != 0);
  if (flights.items == NULL || !is_wanted || is_told || (watching_has_ended() && !device_failed_before()) ||
      (!sticky && refused == 0) || current_mode() == MODE_OPEN)
    return;
  KEEP_ERRNO;
  UNSEEN;
  const char *problem;
  if (refused != 0 &&
      (atomic_load(&captures_under_way) > 0 || !device_becomes_idle(&(struct range_list){0}, &problem)))
    return;
  char *messages = sticky ? device_messages() : NULL;
  if (take_flights()) {
    if (!is_told) // by another thread meanwhile
      tell_failure(result, refused, is_error, messages);
    give_flights();
  }
  free(messages);
}

void look_for_failure(void) {
  enum { LEGACY_STREAM = 1 };
  if (flights.items != NULL && atomic_load(&captures_under_way) == 0 && current_context() != 0)
    device_may_have_failed(NULL, ASK("cuStreamQuery", LEGACY_STREAM));
}
