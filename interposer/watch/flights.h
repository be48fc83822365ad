// What is known of launches that are watched and not waited for: shared by flights.c, failures.c and
// looking.c.
#pragma once

#include "contents/images.h"
#include "generated/structs.h"
#include "record/call.h"

enum {
  FLIGHTS = MARKERS / 2, // that are known; each has two markers
  MOST_WORDS = 12,
  MOST_ATTRIBUTES = 8,
  MOST_IMAGES = 16, // of one launch
  PACKED_BYTES = 1024,
};

struct image { // of a range, from before the launch; with --when nan one from after it as well
  struct range range;
  uint64_t position, after;
};

struct flight {
  uint64_t number; // among flights, from 1; 0: none
  uint64_t ordinal, words[MOST_WORDS];
  const struct function *function;
  struct kernel *kernel;
  struct stream_name stream;
  uint64_t streams_ended; // by then: a later stream may have its handle
  uint64_t next_image;    // after its own
  bool tells_begin, has_packed;
  atomic_bool has_returned; // the call
  atomic_bool is_lost;      // no marker could be written after it
  atomic_bool is_judged;    // nobody looks at its images from after the launch any more
  uint16_t record_function;
  uint32_t packed_bytes;
  unsigned attributes_count, images_count;
  struct CUlaunchConfig config;
  struct CUlaunchAttribute attributes[MOST_ATTRIBUTES];
  struct image images[MOST_IMAGES];
  uint8_t packed[PACKED_BYTES];
};

// The last ones. What is in it belongs to who has the lock; calls of the driver are made under it, so nobody
// waits for it without end. Whoever judges a flight may look at it without: it stays until it is judged.
extern struct flights {
  struct flight *items; // NULL: there was none
  _Atomic uint64_t last;
  uint64_t first_under_way; // of all before it the images may be overwritten
} flights;
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
};
// Writes the window of a flight, and those of the ring before it. With the lock. False: a window is open.
bool tell_flight(struct flight *flight, const struct verdict *verdict);

// ---- watch/looking.c ---------------------------------------------------------------------------

// Nobody looks meanwhile. False: someone does.
bool begin_to_look(void);
void end_looking(void);
void forget_judged(void); // flights are counted from 1 again
bool begin_looking(void); // when the first launch flies. False: nobody can look
