// Launches that are watched while the host does not wait (`capture --when error`): a flight recorder.
//
// Before such a launch its stream copies what it can reach into pinned memory (contents/images.c); after it,
// the stream writes a marker. Nothing is recorded, until a call is told that the device has failed
// (watch/failures.c), or a thread finds that a launch does not end or has made a NaN (watch/looking.c): its
// window is written then, from what is in the process. A launch of which all this cannot be had is recorded
// as any other, and waited for: the first one of a kernel, and one that reaches memory which was not searched
// for pointers, which the host has too, or which is larger than there is room.
#include "watch/flights.h"
#include "arguments/arguments.h"
#include "base/selection.h"
#include "contents/contents.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "objects/objects.h"
#include "record/encode.h"
#include "watch/watch.h"

enum {
  SEARCHED_BYTES = 2048, // of images, at each launch
  TRIES = 1000,          // to have the lock, a pause after each
};

ZERO_IN_CHILD struct flights flights;
static ZERO_IN_CHILD atomic_bool taken;      // the lock
static ZERO_IN_CHILD atomic_bool other_work; // not watched, or of other streams: beginnings are told, too
static ZERO_IN_CHILD bool several_streams;   // have had flights
static ZERO_IN_CHILD uint64_t allowance, allowed_at_ns; // of --ring-bandwidth

bool take_flights(void) {
  for (unsigned tries = 0; atomic_exchange_explicit(&taken, true, memory_order_acquire); tries++) {
    if (tries == TRIES)
      return false;
    pause_briefly();
  }
  return true;
}
void give_flights(void) { atomic_store_explicit(&taken, false, memory_order_release); }

static bool judges_outputs(void) { return (selection.when.triggers & WHEN_NAN) != 0; }

// Whether nothing is written into its images any more, and nobody needs them.
static bool is_over(const struct flight *flight) {
  bool is_copied = has_passed(flight) || (flight->is_lost && flight->tells_begin && has_begun(flight));
  return is_copied && (flight->number == 0 || flight->is_judged);
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

static bool add_image(struct flight *flight, const struct range *range, uint64_t context) {
  for (unsigned n = 0; n < flight->images_count; n++)
    if (flight->images[n].range.base == range->base)
      return true;
  if (flight->images_count == MOST_IMAGES || (range->kind != RANGE_DEVICE && range->kind != RANGE_GLOBAL) ||
      range->host_visible || (range->context != 0 && range->context != context))
    return false;
  flight->images[flight->images_count++].range = *range;
  return true;
}

// What it can reach: by its parameters, and from there by pointers as they were when they were searched last.
static bool find_ranges(struct flight *flight, const struct call *call, uint64_t context, uint64_t *bytes) {
  _Static_assert((int)MOST_IMAGES >= (int)MOST_TARGETS, "found");
  struct range found[MOST_IMAGES];
  size_t named;
  unsigned count;
  *bytes = 0;
  if (!memory_named(call->packed, call->packed_bytes, found, MOST_IMAGES, &named))
    return false;
  for (size_t n = 0; n < named; n++)
    if (!add_image(flight, &found[n], context))
      return false;
  for (unsigned n = 0; n < flight->images_count; n++) {
    *bytes += flight->images[n].range.bytes;
    if (selection.reach != REACH_REACHABLE)
      continue;
    if (!range_targets(&flight->images[n].range, found, &count))
      return false;
    for (unsigned target = 0; target < count; target++)
      if (!add_image(flight, &found[target], context))
        return false;
  }
  return selection.max_bytes == 0 || *bytes <= selection.max_bytes;
}

static bool share_memory(const struct flight *one, const struct flight *other) {
  for (unsigned n = 0; n < one->images_count; n++)
    for (unsigned m = 0; m < other->images_count; m++)
      if (one->images[n].range.base == other->images[m].range.base)
        return true;
  return false;
}

static uint64_t end_of_images(const struct flight *flight) {
  uint64_t end = next_image();
  for (unsigned n = 0; n < flight->images_count * (takes_outputs() ? 2 : 1); n++) {
    uint64_t bytes = flight->images[n % flight->images_count].range.bytes;
    end = position_for(end, bytes) + bytes;
  }
  return end;
}

// Whether the images of this flight take the place of none that is still needed. The own stream comes to them
// after the launches that need them. With --when nan and crash no two launches that may run at once reach the
// same memory: which of them has written it could not be told. With --when crash those of the last ones stay:
// the process may end while this one is copied.
static bool has_place(const struct flight *flight, uint64_t ordinal) {
  uint64_t end = end_of_images(flight);
  if (end - next_image() > image_room())
    return false;
  while (flights.first_under_way <= last_flight() &&
         (flights.first_under_way < first_flight() || is_over(flight_of(flights.first_under_way))))
    flights.first_under_way++;
  uint64_t first = flights.first_under_way;
  uint64_t ring = last_flight() > kept_flights() ? last_flight() - kept_flights() + 1 : 1;
  first = watches_crashes() && ring < first ? ring : first;
  for (uint64_t number = first; number <= last_flight(); number++) {
    const struct flight *other = flight_of(number);
    bool is_kept = other->images_count == 0 || other->images[0].position + image_room() >= end;
    bool is_other_stream = !in_same_stream(other, flight);
    if (watches_crashes() && other->ordinal + kept_flights() >= ordinal && !is_kept && !other->is_told)
      return false;
    if (judges_outputs() ? !is_kept && !is_over(other) : !is_kept && is_other_stream && !is_over(other))
      return false;
    if (takes_outputs() && is_other_stream && !has_passed(other) && share_memory(flight, other))
      return false;
    if (is_kept && !(takes_outputs() && several_streams))
      break; // and so are those of all that came after it
  }
  return true;
}

// Whether pointers have come into what lately held none. All of it cannot be searched at each launch.
static void search_last_images(void) {
  const struct flight *flight =
      flights.first_under_way > first_flight() ? flight_of(flights.first_under_way - 1) : NULL;
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

static void reserve_images(struct flight *flight) {
  for (unsigned n = 0; n < flight->images_count; n++)
    flight->images[n].position = reserve_image(flight->images[n].range.bytes);
  for (unsigned n = 0; n < flight->images_count && takes_outputs(); n++)
    flight->images[n].after = reserve_image(flight->images[n].range.bytes);
  flight->next_image = next_image();
}

static int enqueue(struct flight *flight) {
  int result = SUCCESS;
  for (unsigned n = 0; n < flight->images_count && result == SUCCESS; n++)
    result = take_image(&flight->images[n].range, flight->stream, flight->images[n].position);
  if (result == SUCCESS && flight->tells_begin)
    result = write_marker(begin_marker(flight), (uint32_t)flight->number, flight->stream);
  return result;
}

_Static_assert(FLIGHTS * sizeof(struct flight) % FLIGHTS_OFFSET == 0, "whole pages");

static void begin_flights(void) {
  enum { TABLE_BYTES = FLIGHTS_OFFSET + FLIGHTS * sizeof(struct flight) };
  struct flights_header *header = table_of_images();
  *header =
      (struct flights_header){.version = FLIGHTS_VERSION,
                              .flights = FLIGHTS,
                              .flight_bytes = sizeof(struct flight),
                              .kept = (uint32_t)kept_flights(),
                              .markers_offset = TABLE_BYTES,
                              .images_offset = TABLE_BYTES + MARKERS * sizeof(uint32_t) + SCANS * FLAGS_BYTES,
                              .room = image_room()};
  memcpy(header->magic, "RCAPRING", sizeof header->magic);
  flights.items = (struct flight *)(void *)((uint8_t *)header + FLIGHTS_OFFSET);
  other_work = selection.has_kernel || selection.bounded || watches_crashes();
}

static bool is_wanted(uint64_t address, unsigned type, uint8_t *had, uint8_t *appeared, const void *state) {
  struct flight *flight = (struct flight *)(uintptr_t)state;
  for (unsigned n = 0; n < flight->images_count; n++)
    if (address - flight->images[n].range.base < flight->images[n].range.bytes)
      flight->wanted[n] |= nonfinite_of_type(UINT8_MAX, type);
  *had = *appeared = 0;
  return false;
}

// Whether what it leaves is looked at on the device, or in copies.
static void choose_way(struct flight *flight) {
  _Static_assert((int)MOST_IMAGES < (int)SCANS_OF_ONE, "flags");
  unsigned scanned = 0;
  while (scanned < flight->images_count && can_be_scanned(&flight->images[scanned].range))
    scanned++;
  flight->is_scanned =
      judges_outputs() && !watches_crashes() && scanned > 0 && scanned == flight->images_count;
  memset(flight->wanted, 0, sizeof flight->wanted);
  if (flight->is_scanned && flight->kernel->types_bytes != 0 && flight->has_packed)
    made_nonfinite(flight->kernel, flight->packed, flight->packed_bytes, is_wanted, flight, NULL, 0);
}

static bool can_fly(uint64_t context) {
  if (!images_can_be_made(context, FLIGHTS_OFFSET + FLIGHTS * sizeof(struct flight)))
    return false;
  if ((uint8_t *)flights.items != (uint8_t *)table_of_images() + FLIGHTS_OFFSET)
    begin_flights();
  return (selection.when.triggers & (WHEN_NAN | WHEN_HANG)) == 0 || begin_looking();
}

static enum flying prepare_flight(struct call *call) {
  uint64_t context = current_context(), bytes;
  if (!can_fly(context))
    return FLIGHT_WAITS;
  struct flight *flight = flight_of(last_flight() + 1);
  const struct flight *before = last_flight() > 0 ? flight_of(last_flight()) : NULL;
  if (!has_ended(flight) || (flight->number != 0 && !flight->is_judged))
    return FLIGHT_WAITS;
  atomic_store(&flight->number, 0);
  call->scratch_used = 0;
  call->packed = NULL;
  call->packed_bytes = 0;
  call->attachments = take_scratch(call, MAX_ATTACHMENTS * sizeof *call->attachments);
  pack_launch_parameters(call);
  flight->stream = (struct stream_name){stream_of_call(call), (call->record_function & PER_THREAD_BIT) != 0};
  flight->streams_ended = streams_ended();
  several_streams = several_streams || (before != NULL && !in_same_stream(flight, before));
  other_work = other_work || several_streams;
  flight->images_count = 0;
  if ((call->packed == NULL && call->kernel->parameter_count != 0) || !copy_arguments(flight, call) ||
      !find_ranges(flight, call, context, &bytes) || !has_place(flight, call->ordinal))
    return FLIGHT_WAITS;
  flight->kernel = call->kernel;
  choose_way(flight);
  search_last_images();
  bytes *= takes_outputs() && !flight->is_scanned ? 2 : 1;
  if (!is_allowed(bytes)) {
    other_work = true;
    return FLIGHT_BEYOND;
  }
  flight->is_lost = flight->has_returned = flight->is_told = false;
  flight->is_judged = !judges_outputs();
  flight->thread = call->thread->id;
  flight->ordinal = call->ordinal;
  flight->function = call->function;
  flight->record_function = call->record_function;
  flight->tells_begin = other_work;
  reserve_images(flight);
  for (unsigned n = 0; n < SCANS_OF_ONE && flight->is_scanned; n++)
    forget_scan((unsigned)((last_flight() + 1) % FLIGHTS) * SCANS_OF_ONE + n);
  atomic_store_explicit(&flight->number, last_flight() + 1, memory_order_release);
  int result = enqueue(flight);
  if (result != SUCCESS) { // of which the launch will tell
    flight->number = 0;
    other_work = true;
    return FLIGHT_WAITS;
  }
  call->flight = flight->number;
  atomic_store(&flights.last, flight->number);
  atomic_fetch_add(&flown.scanned, flight->is_scanned);
  atomic_fetch_add(&flown.image_bytes, bytes);
  atomic_fetch_add(&perturbation.copied_bytes, bytes);
  return FLIGHT_BEGINS;
}

void launch_is_not_watched(void) { other_work = true; }

// To who looks when this process is gone.
static void tell_flown(void) {
  struct flights_header *header =
      (struct flights_header *)(void *)((uint8_t *)flights.items - FLIGHTS_OFFSET);
  atomic_store_explicit(&header->flown.launches, flown.launches, memory_order_relaxed);
  atomic_store_explicit(&header->flown.waited, flown.waited, memory_order_relaxed);
  atomic_store_explicit(&header->flown.beyond_bandwidth, flown.beyond_bandwidth, memory_order_relaxed);
  atomic_store_explicit(&header->flown.image_bytes, flown.image_bytes, memory_order_relaxed);
}

enum flying begin_flight(struct call *call) {
  struct kernel *kernel = call->kernel;
  if (!selection.when.in_stream)
    return FLIGHT_WAITS;
  enum flying flying = FLIGHT_WAITS;
  if (atomic_load(&captures_under_way) > 0)
    launch_is_not_watched(); // its window is not, either
  else if (call->function->effect == EFFECT_LAUNCH && kernel->owner != 0 && kernel->handle != 0 &&
           atomic_load(&kernel->described_window) != 0 && current_mode() == MODE_CLOSED &&
           !asks_for_origins() && selection.reach != REACH_LIVE &&
           (!judges_outputs() || atomic_load(&kernel->types_asked)) && take_flights()) {
    flying = prepare_flight(call);
    give_flights();
  }
  atomic_fetch_add(flying == FLIGHT_BEGINS  ? &flown.launches
                   : flying == FLIGHT_WAITS ? &flown.waited
                                            : &flown.beyond_bandwidth,
                   1);
  if (flights.items != NULL)
    tell_flown();
  return flying;
}

static int finish(struct flight *flight, bool has_run) {
  int result = SUCCESS;
  unsigned found = found_of(flight), count = has_run && takes_outputs() ? flight->images_count : 0;
  for (unsigned n = 0; n < count && flight->is_scanned && result == SUCCESS; n++)
    result =
        begin_scan(scan_of(flight, n), &flight->images[n].range, flight->stream, flight->wanted[n], found);
  for (unsigned n = 0; n < count && result == SUCCESS; n++) {
    const struct image *image = &flight->images[n];
    result = flight->is_scanned ? take_image_if(found, &image->range, flight->stream, image->after)
                                : take_image(&image->range, flight->stream, image->after);
  }
  if (!has_run)
    flight->is_judged = true;
  return result == SUCCESS ? write_marker(begin_marker(flight) + 1, (uint32_t)flight->number, flight->stream)
                           : result;
}

void end_flight(struct call *call, int result) {
  // Its place is taken by no other flight before it has ended or is lost. One that the driver refused has
  // ended when its copies are made.
  struct flight *flight = flight_of(call->flight);
  flight->has_returned = true;
  bool has_failed = is_sticky(result); // the device, maybe in this launch
  bool can_be_marked = !has_failed && atomic_load(&captures_under_way) <= 0 && take_flights();
  int marked = SUCCESS;
  if (can_be_marked) {
    if (flight->number == call->flight && images_are_there())
      marked = finish(flight, result == SUCCESS);
    give_flights();
  }
  if (!has_failed && !is_sticky(marked) && (!can_be_marked || marked != SUCCESS)) {
    launch_is_not_watched();
    flight->is_judged = true;
    flight->is_lost = true;
  }
  if (result != SUCCESS)
    device_may_have_failed(call, result);
}

static bool all_have_passed(void) {
  for (uint64_t number = first_flight(); number <= last_flight(); number++)
    if (!has_passed(flight_of(number)))
      return false;
  return true;
}

void forget_flights(uint64_t context) {
  const char *problem;
  look_for_failure();
  flights_land();
  tell_ring(0, 0);
  if (flights.items == NULL)
    return;
  if (!begin_to_look()) // before the lock, as who looks takes that
    return;
  if (take_flights()) {
    // The memory goes when no stream is to write into it any more.
    bool are_written =
        images_are_there() && !all_have_passed() && !device_becomes_idle(&(struct range_list){0}, &problem);
    images_end(context, are_written);
    if (!images_are_there()) {
      memset(flights.items, 0, FLIGHTS * sizeof *flights.items);
      flights.first_under_way = 0;
      atomic_store(&flights.last, 0);
      forget_judged();
    }
    give_flights();
  }
  end_looking();
}
