// What is watched for (`capture --when`), and the launches of which only those that went wrong are kept.
#pragma once

#include "contents/copy.h"
#include "record/call.h"

// ---- triggers (triggers.c) -----------------------------------------------------------------------

enum launch_use { LAUNCH_IS_LEFT, LAUNCH_IN_A_PAUSE, LAUNCH_IS_RECORDED, LAUNCH_IS_IN_THE_RING };
enum launch_use use_of_launch(struct call *call); // now
struct watched_row;
struct watched_row *row_of_launch(struct call *call); // NULL: times are not watched
void launch_took(struct watched_row *row, uint64_t ordinal, uint64_t time_ns);
// Before the window is closed: whether it is kept. launch: the one that it ends with; NULL: the process ends.
void judge_window(const struct call *launch, uint64_t call, bool owns_gate, uint64_t recorded);
bool watching_has_ended(void);
void tell_hit(void); // to who looks at the program, when the window is whole
void write_hit(const char *trigger, uint64_t ordinal, const char *kernel, const char *words, uint64_t call);
void tell_hang(uint64_t since_ns); // to who looks at the program, when that window is whole
bool launches_are_paused(void);    // after a hit
// A NaN where no memory of the launch held one before; or an infinity, where none held either. Said in words.
bool made_nonfinite(struct kernel *kernel, const uint8_t *packed, uint32_t packed_bytes,
                    nonfinite_at *at_address, const void *state, char *words, size_t room);
void begin_watching(void);              // when the process has been described
void end_watching(uint64_t not_judged); // before the process ends
struct flown { // what is counted of launches that are not waited for, or could not be
  _Atomic uint64_t launches, waited, beyond_bandwidth, image_bytes;
  _Atomic uint64_t scanned; // of launches, whose outputs are looked at on the device
};
extern struct flown flown;

// ---- launches that are watched and not waited for (flights.c, failures.c, looking.c) -------------

enum flying { FLIGHT_WAITS, FLIGHT_BEGINS, FLIGHT_BEYOND }; // BEYOND: --ring-bandwidth does not allow it
void launch_is_not_watched(void);                           // one that matches, in a pause
enum flying begin_flight(struct call *call);                // before a launch; WAITS: record it as any other
void end_flight(struct call *call, int result);             // of a call that has a flight
void device_may_have_failed(struct call *call, int result); // call: NULL where no launch is told so
void look_for_failure(void);                                // that no call was told yet
void forget_flights(uint64_t context);                      // that is about to end
// Before what launches have had ends: those that are looked at when they have ended are.
void flights_land(void);
// With --when crash, before so many bytes end (0: whatever launches have had): the last flights that reach
// them become windows of the file.
void tell_ring(uint64_t base, uint64_t bytes);
uint64_t flights_not_judged(void);

// ---- windows (windows.c) ------------------------------------------------------------------------

// Windows open and close under it. It is not held while memory is read.
extern pthread_mutex_t windows_change;
extern atomic_bool any_window; // there was

// Writes a window of one launch that has left the driver: `tell` writes what is in it. False: another one is
// open, or nothing can be written any more.
bool tell_window(uint64_t ordinal, void (*tell)(uint32_t window, uint64_t number, void *state), void *state);
