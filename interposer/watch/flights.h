// What is known of launches that are watched and not waited for: shared by flights.c, failures.c and
// looking.c.
#pragma once

#include "base/selection.h"
#include "contents/images.h"
#include "generated/structs.h"
#include "record/call.h"
#include "watch/watch.h"

enum {
  FLIGHTS = MARKERS / 2, // that are known; each has two markers
  MOST_WORDS = 12,
  MOST_ATTRIBUTES = 8,
  MOST_IMAGES = 16, // of one launch
  PACKED_BYTES = 1024,
};

// Of what is reached there is an image from after the launch, too; where that is looked at on the device,
// only when something was found.
static inline bool takes_outputs(void) { return (selection.when.triggers & (WHEN_NAN | WHEN_CRASH)) != 0; }
static inline bool watches_crashes(void) { return (selection.when.triggers & WHEN_CRASH) != 0; }

struct image { // of a range, from before the launch, and from after it
  struct range range;
  uint64_t position, after;
};

// What is before `function` is read by `replay capture` (replay/capture/ring.py) when a signal has ended this
// process, at any instruction: so `number` is 0 while the rest is written, before any copy is enqueued.
struct flight {
  _Atomic uint64_t number; // among flights, from 1; 0: none
  uint64_t ordinal, words[MOST_WORDS];
  struct stream_name stream;
  uint64_t streams_ended; // by then: a later stream may have its handle
  uint64_t next_image;    // after its own
  uint32_t thread;
  uint16_t record_function;
  bool tells_begin, has_packed;
  atomic_bool has_returned; // the call
  atomic_bool is_lost;      // no marker could be written after it
  atomic_bool is_judged;    // nobody looks at its images from after the launch any more
  atomic_bool is_told;      // it is a window of the file, or cannot become one any more
  uint32_t packed_bytes, attributes_count, images_count;
  struct CUlaunchConfig config;
  struct CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  struct image images[MOST_IMAGES];
  uint8_t packed[PACKED_BYTES];
  const struct function *function;
  struct kernel *kernel;
  bool is_scanned;             // what it leaves is looked at on the device
  uint8_t wanted[MOST_IMAGES]; // of each image, bits of nonfinite_in that are of types of its numbers
};
_Static_assert(offsetof(struct flight, thread) == 144 && offsetof(struct flight, config) == 168 &&
                   offsetof(struct flight, images) == 800 && sizeof(struct image) == 64 &&
                   sizeof(struct flight) == 2888,
               "ring.py");

// Before the flights.
struct flights_header {
  char magic[8]; // written last
  uint32_t version, flights, flight_bytes, kept;
  uint64_t markers_offset, images_offset, room;
  struct flown flown; // counts, as they are now; the first four are told
};
enum { FLIGHTS_OFFSET = 4096, FLIGHTS_VERSION = 1 };

// The last ones. What is in it belongs to who has the lock; calls of the driver are made under it, so nobody
// waits for it without end. Whoever judges a flight may look at it without: it stays until it is judged.
extern struct flights {
  _Atomic(struct flight *) items; // NULL: there was none; others look without the lock
  _Atomic uint64_t last;
  uint64_t first_under_way; // of all before it the images may be overwritten
} flights;
static inline uint64_t kept_flights(void) { // the ring
  return selection.when.ring > 1 ? selection.when.ring : 1;
}
bool take_flights(void); // the lock. False: it cannot be had
void give_flights(void);

static inline struct flight *flight_of(uint64_t number) { return &flights.items[number % FLIGHTS]; }
static inline uint64_t last_flight(void) { return atomic_load(&flights.last); }
static inline uint64_t first_flight(void) {
  uint64_t last = last_flight();
  return last >= FLIGHTS ? last - FLIGHTS + 1 : 1;
}
static inline bool in_same_stream(const struct flight *one, const struct flight *other) {
  return one->stream.handle == other->stream.handle && one->stream.per_thread == other->stream.per_thread &&
         one->streams_ended == other->streams_ended;
}
static inline unsigned begin_marker(const struct flight *flight) {
  return 2 * (unsigned)(flight->number % FLIGHTS);
}
static inline unsigned scan_of(const struct flight *flight, unsigned image) {
  return (unsigned)(flight->number % FLIGHTS) * SCANS_OF_ONE + image;
}
static inline unsigned found_of(const struct flight *flight) { return scan_of(flight, SCANS_OF_ONE - 1); }
static inline bool has_outputs(const struct flight *flight) { // when it has passed
  return takes_outputs() && (!flight->is_scanned || found_by_scan(found_of(flight)) != 0);
}
static inline bool has_begun(const struct flight *flight) {
  return !flight->tells_begin || marker(begin_marker(flight)) == (uint32_t)flight->number;
}
static inline bool has_passed(const struct flight *flight) { // its stream
  return flight->number == 0 || marker(begin_marker(flight) + 1) == (uint32_t)flight->number;
}
static inline bool has_ended(const struct flight *flight) { return flight->is_lost || has_passed(flight); }

// ---- watch/failures.c --------------------------------------------------------------------------

bool is_sticky(int result); // an error that no context survives
// The first launch of each stream that has begun and not ended; the oldest of them. count: how many.
struct flight *flight_that_failed(unsigned *count);
struct verdict {
  const char *trigger;
  int result, error; // of the launch; that the device reports, 0: none
  bool has_outputs;  // the images from after the launch are there, also of those before it
  char words[200];
  const char *messages; // of the driver
};
// Writes the window of a flight, and those of the ring before it. With the lock. False: a window is open.
bool tell_flight(struct flight *flight, const struct verdict *verdict);

// ---- watch/looking.c ---------------------------------------------------------------------------

// Nobody looks meanwhile. False: someone does.
bool begin_to_look(void);
void end_looking(void);
void forget_judged(void); // flights are counted from 1 again
bool begin_looking(void); // when the first launch flies. False: nobody can look
