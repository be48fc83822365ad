// Launches that are watched while the host does not wait (`capture --when error`): a flight recorder.
//
// Before such a launch its stream copies what it can reach into pinned memory (contents/images.c); after it,
// the stream writes a marker. Nothing is recorded, until a call is told that the device has failed: the first
// launch of a stream whose marker is missing is the one, and its window is written then, from what is in the
// process. A launch of which all this cannot be had is recorded as any other, and waited for: the first one
// of a kernel, and one that reaches memory which was not searched for pointers, which the host has too, or
// which is larger than there is room.
#include "arguments/arguments.h"
#include "base/selection.h"
#include "contents/copy.h"
#include "contents/images.h"
#include "driver/real.h"
#include "generated/structs.h"
#include "objects/objects.h"
#include "record/encode.h"
#include "window/window.h"

#include <stdio.h>
#include <sys/mman.h>

enum {
  FLIGHTS = MARKERS / 2, // that are known; each has two markers
  MOST_WORDS = 12,
  MOST_ATTRIBUTES = 8,
  MOST_RANGES = 16,
  PACKED_BYTES = 1024,
  SEARCHED_BYTES = 2048, // of images, at each launch
  MOST_STREAMS = 64,     // that are told apart when the device has failed
  TRIES = 1000,          // to have the lock, a pause after each
};

struct image {
  struct range range;
  uint64_t position;
};

struct flight {
  uint64_t number; // among flights, from 1; 0: none
  uint64_t ordinal, words[MOST_WORDS];
  const struct function *function;
  struct kernel *kernel;
  struct stream_name stream;
  uint64_t next_image; // after its own
  bool tells_begin, has_packed;
  atomic_bool is_lost; // no marker could be written after it
  uint16_t record_function;
  uint32_t packed_bytes;
  unsigned attributes_count, images_count;
  struct CUlaunchConfig config;
  struct CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  struct image images[MOST_RANGES];
  uint8_t packed[PACKED_BYTES];
};

// One thread at a time. Not a mutex: calls of the driver are made under it, so nobody waits without end.
static ZERO_IN_CHILD atomic_bool taken;
static ZERO_IN_CHILD struct flight *flights;
static ZERO_IN_CHILD uint64_t last_flight, first_under_way; // all before it have ended
static ZERO_IN_CHILD struct stream_name last_stream;
static ZERO_IN_CHILD atomic_bool other_work; // not watched, or of other streams: beginnings are told, too
static ZERO_IN_CHILD uint64_t allowance, allowed_at_ns; // of --ring-bandwidth
static ZERO_IN_CHILD bool is_told;                      // that the device has failed
static ZERO_IN_CHILD _Atomic uint64_t flown, waited, beyond_bandwidth, image_bytes;

static bool take_lock(void) {
  for (unsigned tries = 0; atomic_exchange_explicit(&taken, true, memory_order_acquire); tries++) {
    if (tries == TRIES)
      return false;
    pause_briefly();
  }
  return true;
}
static void give_lock(void) { atomic_store_explicit(&taken, false, memory_order_release); }

static bool same_stream(struct stream_name one, struct stream_name other) {
  return one.handle == other.handle && one.per_thread == other.per_thread;
}

static unsigned begin_marker(const struct flight *flight) { return 2 * (unsigned)(flight->number % FLIGHTS); }
static bool has_begun(const struct flight *flight) {
  return !flight->tells_begin || marker(begin_marker(flight)) == (uint32_t)flight->number;
}
static bool has_ended(const struct flight *flight) {
  return flight->number == 0 || flight->is_lost ||
         marker(begin_marker(flight) + 1) == (uint32_t)flight->number;
}
static struct flight *flight_of(uint64_t number) { return &flights[number % FLIGHTS]; }
static uint64_t first_flight(void) { return last_flight >= FLIGHTS ? last_flight - FLIGHTS + 1 : 1; }

static bool is_sticky(int result) {
  static const int sticky[] = {STICKY_RESULTS};
  for (size_t n = 0; n < sizeof sticky / sizeof *sticky; n++)
    if (sticky[n] == result)
      return true;
  return false;
}

// ---- before and after a launch ------------------------------------------------------------------

static bool copy_arguments(struct flight *flight, const struct call *call) {
  const struct CUlaunchConfig *config = pointer_argument(call, 0);
  if (call->function->parameter_count > MOST_WORDS || call->packed_bytes > PACKED_BYTES)
    return false;
  memcpy(flight->words, call->arguments, call->function->parameter_count * sizeof(uint64_t));
  flight->has_packed = call->packed != NULL;
  flight->packed_bytes = call->packed_bytes;
  flight->attributes_count = 0;
  if (call->packed != NULL)
    memcpy(flight->packed, call->packed, call->packed_bytes);
  if (!has_launch_config(call->function))
    return true;
  if (config == NULL || !read_memory(&flight->config, config, sizeof *config) ||
      flight->config.numAttrs > MOST_ATTRIBUTES)
    return false;
  flight->attributes_count = flight->config.attrs != 0 ? flight->config.numAttrs : 0;
  return read_memory(flight->attributes, (const void *)(uintptr_t)flight->config.attrs,
                     flight->attributes_count * sizeof *flight->attributes);
}

static bool find_ranges(struct flight *flight, const struct call *call, uint64_t context, uint64_t *bytes) {
  struct range named[MOST_RANGES];
  size_t count;
  *bytes = 0;
  if (!memory_named(call->packed, call->packed_bytes, named, MOST_RANGES, &count))
    return false;
  for (size_t n = 0; n < count; n++) {
    const struct range *range = &named[n];
    if ((range->kind != RANGE_DEVICE && range->kind != RANGE_GLOBAL) || range->host_visible ||
        (range->context != 0 && range->context != context) ||
        (selection.reach == REACH_REACHABLE && !range_leads_nowhere(range)))
      return false;
    flight->images[n].range = *range;
    *bytes += range->bytes;
  }
  flight->images_count = (unsigned)count;
  return selection.max_bytes == 0 || *bytes <= selection.max_bytes;
}

// Whether the images of this flight take the place of none that another stream may still need. The own stream
// comes to them after the launches that need them.
static bool has_place(const struct flight *flight) {
  uint64_t end = next_image();
  for (unsigned n = 0; n < flight->images_count; n++)
    end = position_for(end, flight->images[n].range.bytes) + flight->images[n].range.bytes;
  if (end - next_image() > image_room())
    return false;
  while (first_under_way <= last_flight &&
         (first_under_way < first_flight() || has_ended(flight_of(first_under_way))))
    first_under_way++;
  for (uint64_t number = first_under_way; number <= last_flight; number++) {
    const struct flight *other = flight_of(number);
    if (other->images_count > 0 && other->images[0].position + image_room() >= end)
      break; // and so do all that came after it
    if (!same_stream(other->stream, flight->stream) && !has_ended(other))
      return false;
  }
  return true;
}

// Whether pointers have come into what lately held none. All of it cannot be searched at each launch.
static void search_last_images(void) {
  const struct flight *flight = first_under_way > first_flight() ? flight_of(first_under_way - 1) : NULL;
  if (flight == NULL || flight->number == 0 || flight->images_count == 0 ||
      selection.reach != REACH_REACHABLE || flight->images[0].position + image_room() < next_image())
    return;
  for (unsigned n = 0; n < flight->images_count; n++)
    search_image(&flight->images[n].range, flight->images[n].position,
                 SEARCHED_BYTES / flight->images_count / sizeof(uint64_t) * sizeof(uint64_t));
}

// As many bytes as were not used in the last second, at most.
static bool is_allowed(uint64_t bytes) {
  uint64_t rate = selection.when.ring_bandwidth, now = now_ns();
  if (rate == 0)
    return true;
  uint64_t passed = allowed_at_ns == 0 || now - allowed_at_ns > 1000000000 ? 1000000000 : now - allowed_at_ns;
  allowance += (uint64_t)((double)rate * (double)passed / 1e9);
  allowance = allowance > rate ? rate : allowance;
  allowed_at_ns = now;
  if (bytes > allowance)
    return false;
  allowance -= bytes;
  return true;
}

static int enqueue(struct flight *flight) {
  int result = SUCCESS;
  for (unsigned n = 0; n < flight->images_count && result == SUCCESS; n++)
    result = take_image(&flight->images[n].range, flight->stream, &flight->images[n].position);
  flight->next_image = next_image();
  if (result == SUCCESS && flight->tells_begin)
    result = write_marker(begin_marker(flight), (uint32_t)flight->number, flight->stream);
  return result;
}

static enum flying prepare_flight(struct call *call) {
  uint64_t context = current_context(), bytes;
  if (flights == NULL) {
    void *mapped = mmap(NULL, FLIGHTS * sizeof *flights, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    flights = mapped != MAP_FAILED ? mapped : NULL;
    other_work = selection.has_kernel || selection.bounded;
  }
  if (flights == NULL || !images_can_be_made(context))
    return FLIGHT_WAITS;
  struct flight *flight = flight_of(last_flight + 1);
  if (!has_ended(flight))
    return FLIGHT_WAITS;
  flight->number = 0;
  call->scratch_used = 0;
  call->packed = NULL;
  call->packed_bytes = 0;
  call->attachments = take_scratch(call, MAX_ATTACHMENTS * sizeof *call->attachments);
  pack_launch_parameters(call);
  flight->stream = (struct stream_name){stream_of_call(call), (call->record_function & PER_THREAD_BIT) != 0};
  other_work = other_work || (last_flight > 0 && !same_stream(flight->stream, last_stream));
  flight->images_count = 0;
  if ((call->packed == NULL && call->kernel->parameter_count != 0) || !copy_arguments(flight, call) ||
      !find_ranges(flight, call, context, &bytes) || !has_place(flight))
    return FLIGHT_WAITS;
  search_last_images();
  if (!is_allowed(bytes)) {
    other_work = true;
    return FLIGHT_BEYOND;
  }
  flight->number = last_flight + 1;
  flight->is_lost = false;
  flight->ordinal = call->ordinal;
  flight->function = call->function;
  flight->record_function = call->record_function;
  flight->kernel = call->kernel;
  flight->tells_begin = other_work;
  int result = enqueue(flight);
  if (result != SUCCESS) { // of which the launch will tell
    flight->number = 0;
    other_work = true;
    return FLIGHT_WAITS;
  }
  last_stream = flight->stream;
  last_flight = flight->number;
  call->flight = flight->number;
  atomic_fetch_add(&image_bytes, bytes);
  atomic_fetch_add(&perturbation.copied_bytes, bytes);
  return FLIGHT_BEGINS;
}

void launch_is_not_watched(void) { other_work = true; }

enum flying begin_flight(struct call *call) {
  struct kernel *kernel = call->kernel;
  if (!selection.when.in_stream)
    return FLIGHT_WAITS;
  enum flying flying = FLIGHT_WAITS;
  if (atomic_load(&captures_under_way) > 0)
    launch_is_not_watched(); // its window is not, either
  else if (call->function->effect == EFFECT_LAUNCH && kernel->owner != 0 && kernel->handle != 0 &&
           atomic_load(&kernel->described_window) != 0 && current_mode() == MODE_CLOSED &&
           !selection.python_stacks && selection.reach != REACH_LIVE && take_lock()) {
    flying = prepare_flight(call);
    give_lock();
  }
  atomic_fetch_add(flying == FLIGHT_BEGINS  ? &flown
                   : flying == FLIGHT_WAITS ? &waited
                                            : &beyond_bandwidth,
                   1);
  return flying;
}

void end_flight(struct call *call, int result) {
  if (result != SUCCESS) {
    device_may_have_failed(call, result);
    return;
  }
  // Its place is taken by no other flight before it has ended or is lost.
  struct flight *flight = flight_of(call->flight);
  bool can_be_marked = atomic_load(&captures_under_way) <= 0 && take_lock();
  int marked = SUCCESS;
  if (can_be_marked) {
    if (flight->number == call->flight && images_are_there())
      marked = write_marker(begin_marker(flight) + 1, (uint32_t)flight->number, flight->stream);
    give_lock();
  }
  if (is_sticky(marked)) // the device has failed already, maybe in this launch
    return;
  if (!can_be_marked || marked != SUCCESS) {
    launch_is_not_watched();
    flight->is_lost = true;
  }
}

void look_for_failure(void) {
  enum { LEGACY_STREAM = 1 };
  if (flights != NULL && atomic_load(&captures_under_way) == 0 && current_context() != 0)
    device_may_have_failed(NULL, ASK("cuStreamQuery", LEGACY_STREAM));
}

void forget_flights(uint64_t context) {
  look_for_failure();
  if (flights == NULL || !take_lock())
    return;
  images_end(context);
  if (!images_are_there()) {
    memset(flights, 0, FLIGHTS * sizeof *flights);
    last_flight = first_under_way = 0;
  }
  give_lock();
}

// ---- when the device has failed -----------------------------------------------------------------

// The first launch of each stream that has begun and not ended; the oldest of them. count: how many.
static struct flight *flight_that_failed(unsigned *count) {
  struct stream_name seen[MOST_STREAMS];
  unsigned streams = 0;
  struct flight *found = NULL;
  *count = 0;
  for (uint64_t number = first_flight(); number <= last_flight; number++) {
    struct flight *flight = flight_of(number);
    unsigned n = 0;
    if (has_ended(flight))
      continue;
    while (n < streams && !same_stream(seen[n], flight->stream))
      n++;
    if (n < streams || streams == MOST_STREAMS)
      continue;
    seen[streams++] = flight->stream;
    if (!has_begun(flight))
      continue;
    found = found == NULL ? flight : found;
    (*count)++;
  }
  return found;
}

// The device is lost, so what such pointers lead to cannot be had any more.
static void name_what_is_missing(const struct flight *flight, const struct image *image, uint64_t call) {
  struct range named[MOST_RANGES];
  size_t count = 0;
  bool is_all = memory_named(image_at(image->position), image->range.bytes, named, MOST_RANGES, &count);
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

static void write_image(const struct flight *flight, const struct image *image, uint64_t call, uint64_t end) {
  static struct piece piece; // too large for the stack of a small thread
  static struct copy_writer writer;
  const struct range *range = &image->range;
  struct range now;
  const char *why = NULL;
  if (!memory_find(range->base, &now) || now.serial != range->serial)
    why = "it was freed before the error was seen";
  else if (image->position + image_room() < end)
    why = "the ring was too small to keep it (--ring)";
  if (why != NULL) {
    write_note(NOTE_MEMORY_NOT_READ, 0, call, "%lu bytes at 0x%lx: %s", range->bytes, range->base, why);
    return;
  }
  writer = (struct copy_writer){range, MOMENT_BEFORE, call, COPY_FIRST, NULL};
  for (uint64_t offset = 0; offset < range->bytes; offset += PIECE_BYTES) {
    piece = (struct piece){.data = (uint8_t *)(uintptr_t)image_at(image->position + offset),
                           .first_chunk = (size_t)(offset / CHUNK_BYTES),
                           .bytes = piece_bytes(range, offset)};
    for (size_t at = 0; at < piece.bytes && piece.error == 0; at += CHUNK_BYTES)
      store_chunk(&piece, at, piece.bytes - at < CHUNK_BYTES ? piece.bytes - at : CHUNK_BYTES);
    writer.piece = &piece;
    finish_piece(&writer, offset + piece.bytes == range->bytes ? COPY_LAST : 0);
  }
  if (selection.reach == REACH_REACHABLE)
    name_what_is_missing(flight, image, call);
}

struct told {
  struct flight *flight;
  uint64_t end;      // of images when the launch that failed was made
  int result, error; // of the launch; that the device reports, 0: none
  char words[160];
};

static void tell_flight(uint32_t window, uint64_t number, void *state) {
  struct told *told = state;
  struct flight *flight = told->flight;
  struct call call = {.thread = current_thread(),
                      .function = flight->function,
                      .arguments = flight->words,
                      .record_function = flight->record_function,
                      .kernel = flight->kernel,
                      .ordinal = flight->ordinal,
                      .number = number,
                      .window = window,
                      .packed = flight->has_packed ? flight->packed : NULL,
                      .packed_bytes = flight->packed_bytes};
  for (unsigned n = 0; n < flight->images_count; n++)
    write_image(flight, &flight->images[n], number, told->end);
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
  encode_leave(&call, told->result);
  if (told->error != 0)
    device_reports(told->error, number);
  for (unsigned n = 0; n < flight->images_count; n++)
    write_note(NOTE_MEMORY_NOT_READ, 0, number, "%lu bytes at 0x%lx: %s", flight->images[n].range.bytes,
               flight->images[n].range.base,
               told->error != 0 ? "the device reports an error" : "a launch that was not waited for");
  if (told->words[0] != '\0')
    write_hit(told->error == ERROR_ASSERT ? "assert" : "error", flight->ordinal, flight->kernel->name,
              told->words, number);
}

static void tell_failure(struct flight *flight, unsigned count, int result, int error) {
  struct told told = {.error = error};
  uint64_t kept = selection.when.ring > 1 ? selection.when.ring : 1;
  uint64_t first = flight->number > kept ? flight->number - kept + 1 : 1;
  first = first < first_flight() ? first_flight() : first;
  for (uint64_t number = first; number <= flight->number; number++) {
    told.flight = flight_of(number);
    if (told.flight->number != number)
      continue;
    // What comes after it in its stream was never copied, and other streams left its images alone. Those of
    // launches that have ended may be overwritten.
    told.end = number == flight->number ? flight->next_image : next_image();
    if (number == flight->number) {
      told.result = result;
      int length = snprintf(told.words, sizeof told.words,
                            error != 0 ? "the device reports error %d" : "the driver answered %d",
                            error != 0 ? error : result);
      if (count > 1)
        snprintf(told.words + length, sizeof told.words - (size_t)length,
                 "; it is one of %u launches that were under way", count);
    }
    tell_window(told.flight->ordinal, tell_flight, &told);
  }
}

void device_may_have_failed(struct call *call, int result) {
  bool sticky = is_sticky(result);
  uint64_t refused = call != NULL && !sticky ? call->flight : 0;
  if (flights == NULL || is_told || (watching_has_ended() && !device_failed_before()) ||
      (!sticky && refused == 0) || current_mode() == MODE_OPEN)
    return;
  KEEP_ERRNO;
  UNSEEN;
  const char *problem;
  if (refused != 0 &&
      (atomic_load(&captures_under_way) > 0 || !device_becomes_idle(&(struct range_list){0}, &problem)))
    return;
  if (!take_lock())
    return;
  unsigned count = 1;
  struct flight *flight = refused != 0 ? flight_of(refused) : flight_that_failed(&count);
  bool is_wanted = (selection.when.triggers & WHEN_ERROR) != 0 ||
                   (result == ERROR_ASSERT && (selection.when.triggers & WHEN_ASSERT) != 0);
  is_told = sticky;
  if (flight != NULL && is_wanted && images_are_there() && (refused == 0 || flight->number == refused))
    tell_failure(flight, count, refused != 0 ? result : SUCCESS, sticky ? result : 0);
  give_lock();
}

void count_flights(struct watch_counts *counts) {
  counts->in_stream = atomic_load(&flown);
  counts->waited = atomic_load(&waited);
  counts->beyond_bandwidth = atomic_load(&beyond_bandwidth);
  counts->image_bytes = atomic_load(&image_bytes);
}

size_t describe_flights(char *text, size_t room) {
  if (!selection.when.in_stream)
    return 0;
  return (size_t)snprintf(text, room,
                          "watched.in_stream=%lu\nwatched.waited=%lu\nwatched.beyond_bandwidth=%lu\n"
                          "watched.image_bytes=%lu\n",
                          atomic_load(&flown), atomic_load(&waited), atomic_load(&beyond_bandwidth),
                          atomic_load(&image_bytes));
}
