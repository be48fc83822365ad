// Copies of memory that a stream makes on its way to a launch, for which the host does not wait.
#pragma once

#include "memory/memory.h"

// A stream, as a call names it.
struct stream_name {
  uint64_t handle;
  bool per_thread; // which default stream the handle may mean
};

enum { MARKERS = 2048 }; // words that streams write

// Whether such copies can be made in the current context; it takes pinned memory when first asked. Before the
// markers and the images lies a table of so many bytes, whole pages, for who makes them; it stays when the
// images end. With `--when crash` whoever started the capture holds all of it, too. All of this is for one
// thread at a time.
bool images_can_be_made(uint64_t context, size_t table_bytes);
bool images_are_there(void);
void *table_of_images(void); // the newest; NULL: there was none
// Before it ends; 0: whichever they are of. are_written: a stream may still come to a copy, so the memory
// stays.
void images_end(uint64_t context, bool are_written);
uint64_t image_room(void); // bytes for images
// Images lie one after another; a later one takes the place of those that are image_room() before it.
uint64_t next_image(void);                          // the position after the last one
uint64_t position_for(uint64_t at, uint64_t bytes); // of an image that begins there at the earliest
uint64_t reserve_image(uint64_t bytes);             // the position of the next one
// Enqueues the copy of a range. Gives the driver's answer.
int take_image(const struct range *range, struct stream_name stream, uint64_t position);
const uint8_t *image_at(uint64_t position);
// The stream writes `value` when it has come so far.
int write_marker(unsigned marker, uint32_t value, struct stream_name stream);
uint32_t marker(unsigned marker); // the value that it holds now

// Whether a range holds a NaN or an infinity is looked at on the device, in stream order (scan.c): the flags
// of a scan are a byte for each bit of nonfinite_in, in pinned memory. The last ones of a launch say whether
// one of its scans found any of the bits that were wanted of it.
enum { SCANS_OF_ONE = 17, SCANS = MARKERS / 2 * SCANS_OF_ONE, FLAGS_BYTES = 8 };
void scans_begin(void); // in the current context
void scans_end(void);
bool can_be_scanned(const struct range *range);
int scan_range(const struct range *range, struct stream_name stream, uint64_t flags, uint32_t wanted,
               uint64_t found);
int begin_scan(unsigned scan, const struct range *range, struct stream_name stream, uint8_t wanted,
               unsigned found);
// An image from after the launch, made only where `found` says so: then little travels to the host.
int copy_if(const struct range *range, struct stream_name stream, uint64_t found, uint64_t to);
int take_image_if(unsigned found, const struct range *range, struct stream_name stream, uint64_t position);
void forget_scan(unsigned scan);
uint8_t found_by_scan(unsigned scan); // bits

// Where the pointers in a range led when it was read last: only then is it known what a launch can reach. In
// order: it is about to be read, some words of it lead somewhere, it was read whole.
enum { MOST_TARGETS = 16 };
void search_begins(const struct range *range);
void range_leads_to(const struct range *range, const uint8_t *data, size_t bytes);
void range_was_searched(const struct range *range, uint64_t spans);
// False: not known. By the last search, and all of them are there still.
bool range_targets(const struct range *range, struct range targets[MOST_TARGETS], unsigned *count);
// Pointers may be written into it later: of an image that is there, the next part is searched.
void search_image(const struct range *range, uint64_t position, uint64_t most_bytes);
