// A thread that looks at launches which were not waited for: whether one has made a NaN, and whether one does
// not end. It begins with the first of them, takes no signals and asks the driver for nothing: markers and
// images are memory of the process. That they can be read while the device hangs is not yet seen on a GPU
// (GT-COPIES-BESIDE-A-HANG).
#include "base/selection.h"
#include "contents/copy.h"
#include "driver/real.h"
#include "objects/objects.h"
#include "record/writer.h"
#include "watch/flights.h"
#include "watch/watch.h"

#include <signal.h>
#include <stdio.h>

enum { STACK_BYTES = 256 << 10, BLOCK_BYTES = 4096 };
static const uint64_t pause_ns = 1000000, longest_pause_ns = 20000000;
static const uint64_t patience_ns = 30000000000; // with who looks at images, of which one may be large

static ZERO_IN_CHILD atomic_bool has_thread;
static ZERO_IN_CHILD bool is_refused;
static ZERO_IN_CHILD atomic_bool someone_looks; // one at a time: the thread, or who ends what it looks at
static ZERO_IN_CHILD _Atomic uint64_t judged;   // flights: all up to this one

static bool watches(uint32_t triggers) { return (selection.when.triggers & triggers) != 0; }

// A launch that did not end may have ended the watching: what is known of it can be told all the same.
static bool is_done(void) { return watching_has_ended() && !device_failed_before(); }

// ---- whether a launch made a NaN ----------------------------------------------------------------

static size_t chunk_bytes(const struct range *range, uint64_t at) {
  return range->bytes - at < CHUNK_BYTES ? (size_t)(range->bytes - at) : CHUNK_BYTES;
}

// What a chunk holds after the launch that it did not hold before. What is unchanged was there before.
static uint8_t appeared_in(const struct image *image, uint64_t at) {
  const uint8_t *before = image_at(image->position + at), *after = image_at(image->after + at);
  size_t bytes = chunk_bytes(&image->range, at);
  uint8_t bits = 0;
  for (size_t n = 0; n < bytes; n += BLOCK_BYTES) {
    size_t part = bytes - n < BLOCK_BYTES ? bytes - n : BLOCK_BYTES;
    if (memcmp(before + n, after + n, part) != 0)
      bits |= nonfinite_in(after + n, part);
  }
  return bits != 0 ? (uint8_t)(bits & ~nonfinite_in(before, bytes)) : 0;
}

static bool nonfinite_in_images(uint64_t address, unsigned type, uint8_t *had, uint8_t *appeared,
                                const void *state) {
  const struct flight *flight = state;
  for (unsigned n = 0; n < flight->images_count; n++) {
    const struct image *image = &flight->images[n];
    if (address - image->range.base >= image->range.bytes)
      continue;
    uint8_t before = 0, after = flight->is_scanned ? found_by_scan(scan_of(flight, n)) : 0;
    for (uint64_t at = 0; at < image->range.bytes; at += CHUNK_BYTES) {
      before |= nonfinite_in(image_at(image->position + at), chunk_bytes(&image->range, at));
      after |= flight->is_scanned ? 0 : appeared_in(image, at);
    }
    *had = nonfinite_of_type(before, type);
    *appeared = nonfinite_of_type(after, type);
    return true;
  }
  return false;
}

// Nearly always there is nothing, which is found out without asking for types.
static bool may_have_made_any(const struct flight *flight) {
  for (unsigned n = 0; n < flight->images_count; n++)
    if (flight->is_scanned && found_by_scan(scan_of(flight, n)) != 0)
      return true;
  for (unsigned n = 0; n < flight->images_count && !flight->is_scanned; n++)
    for (uint64_t at = 0; at < flight->images[n].range.bytes; at += CHUNK_BYTES)
      if (appeared_in(&flight->images[n], at) != 0)
        return true;
  return false;
}

// False: a window is open, or flights cannot be had; it is to be looked at again.
static bool judge(struct flight *flight) {
  struct verdict verdict = {.trigger = "nan", .has_outputs = true};
  const uint8_t *packed = flight->has_packed ? flight->packed : NULL;
  bool is_told = true;
  if (!launches_are_paused() && (flight->kernel->types_bytes == 0 || may_have_made_any(flight)) &&
      made_nonfinite(flight->kernel, packed, flight->packed_bytes, nonfinite_in_images, flight, verdict.words,
                     sizeof verdict.words)) {
    if (!take_flights())
      return false;
    is_told = tell_flight(flight, &verdict);
    give_flights();
  }
  return is_told;
}

// All that have ended, the first ones first.
static void judge_flights(void) {
  bool all = true; // up to here are judged
  for (uint64_t number = atomic_load(&judged) + 1; number <= last_flight() && !is_done(); number++) {
    struct flight *flight = flight_of(number);
    bool is_judged = flight->number != number || flight->is_judged;
    if (!is_judged && has_passed(flight) && judge(flight))
      is_judged = flight->is_judged = true;
    all = all && is_judged;
    if (all)
      atomic_store(&judged, number);
  }
}

bool begin_to_look(void) {
  uint64_t begin_ns = now_ns();
  while (atomic_exchange_explicit(&someone_looks, true, memory_order_acquire)) {
    if (now_ns() - begin_ns > patience_ns)
      return false;
    pause_briefly();
  }
  return true;
}
void end_looking(void) { atomic_store_explicit(&someone_looks, false, memory_order_release); }

void flights_land(void) {
  const char *problem;
  if (!watches(WHEN_NAN) || flights.items == NULL || atomic_load(&judged) == last_flight() || is_done() ||
      atomic_load(&captures_under_way) > 0)
    return;
  if (current_context() != 0)
    device_becomes_idle(&(struct range_list){0}, &problem);
  if (!begin_to_look())
    return;
  judge_flights();
  end_looking();
}

uint64_t flights_not_judged(void) {
  return watches(WHEN_NAN) && !watching_has_ended() ? last_flight() - atomic_load(&judged) : 0;
}

void forget_judged(void) { atomic_store(&judged, 0); }

// ---- whether one does not end -------------------------------------------------------------------

struct hanging {
  uint64_t number, since_ns; // the launch that was the first of those under way, and since when
  uint64_t locked_ns;        // since when the lock could not be had; 0: it could
};

// The first that has begun, or where none has the first of all.
static struct flight *flight_under_way(void) {
  unsigned count;
  struct flight *flight = flight_that_failed(&count);
  for (uint64_t number = first_flight(); flight == NULL && number <= last_flight(); number++)
    flight = has_ended(flight_of(number)) ? NULL : flight_of(number);
  return flight;
}

// The lock is held for that long only by a thread inside the driver, which does not let it go on because the
// device does not: then what is known stays as it is.
static bool may_look(struct hanging *seen, bool *locked) {
  *locked = take_flights();
  if (*locked)
    seen->locked_ns = 0;
  else if (seen->locked_ns == 0)
    seen->locked_ns = now_ns();
  return *locked || now_ns() - seen->locked_ns > selection.when.hang_ns;
}

static void look_for_hang(struct hanging *seen) {
  bool locked;
  if (!may_look(seen, &locked))
    return;
  struct flight *flight = images_are_there() && !launches_are_paused() ? flight_under_way() : NULL;
  if (flight == NULL)
    seen->number = 0;
  else if (seen->number != flight->number)
    *seen = (struct hanging){flight->number, now_ns(), seen->locked_ns};
  else if (now_ns() - seen->since_ns > selection.when.hang_ns) {
    struct verdict verdict = {.trigger = "hang"};
    snprintf(verdict.words, sizeof verdict.words, "it has not %s after %.3g s",
             has_begun(flight) ? "ended" : "begun", (double)selection.when.hang_ns / 1e9);
    if (tell_flight(flight, &verdict))
      tell_hang(seen->since_ns);
  }
  if (locked)
    give_flights();
}

// ---- the thread ---------------------------------------------------------------------------------

static void *look(void *unused) {
  struct hanging seen = {0};
  UNSEEN;
  for (uint64_t pause = pause_ns; !is_done() && writer_is_open();) {
    nanosleep(&(struct timespec){0, (long)pause}, NULL);
    uint64_t last = atomic_load(&judged);
    if (watches(WHEN_NAN) && !atomic_exchange(&someone_looks, true)) {
      judge_flights();
      end_looking();
    }
    if (watches(WHEN_HANG))
      look_for_hang(&seen);
    bool has_work = atomic_load(&judged) != last;
    pause = has_work ? pause_ns : pause * 2 < longest_pause_ns ? pause * 2 : longest_pause_ns;
  }
  return unused;
}

bool begin_looking(void) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  if (atomic_load(&has_thread) || is_refused)
    return !is_refused;
  sigfillset(&all);
  is_refused = !take_room(STACK_BYTES) || pthread_attr_init(&attributes) != 0 ||
               pthread_sigmask(SIG_SETMASK, &all, &before) != 0;
  if (is_refused)
    return false;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  is_refused = pthread_create(&thread, &attributes, look, NULL) != 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  atomic_store(&has_thread, !is_refused);
  return !is_refused;
}
