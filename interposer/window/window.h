// Windows, and what opens and closes them; what a call touches; the list of launches; times.
#pragma once

#include "record/call.h"

void select_launch(struct call *call); // may open the window
void finish_launch(struct call *call); // may close it
// ordinal: of the launch that opens it, 0 when no launch does. Gives its number, 0: one is open, or the end.
uint32_t open_window(uint64_t call, uint64_t ordinal);
void open_window_for(struct call *call); // LAUNCH: if none is open
void finish_selection(void);             // at exit

// A range that bounds the selection (base/selection.h).
void begin_selected_range(void); // may open the window
void end_selected_range(void);   // may close it
bool select_anew(void);          // as the environment says now; false: in a range, or after the end

// ---- what a call touches of memory --------------------------------------------------------------

void prepare_memory(struct call *call); // copies what the call may touch for the first time, or what it ends

// ---- the list of launches -----------------------------------------------------------------------

bool open_launch_list(void);
void list_launches_of(struct call *call);
struct list_row;
void add_listed_time(struct list_row *row, uint64_t time_ns);

// ---- what is watched for (window/triggers.c) ----------------------------------------------------

bool launch_is_wanted(struct call *call); // by a trigger, now
void watch_time(struct call *call);       // of a launch that no window holds
struct watched_row;
void launch_took(struct watched_row *row, uint64_t ordinal, uint64_t time_ns);
// Before the window is closed: whether it is kept. launch: the one that it ends with; NULL: the process ends.
void judge_window(const struct call *launch, uint64_t call, bool owns_gate, uint64_t recorded);
bool watching_has_ended(void);
void tell_hit(void); // to who looks at the program, when the window is whole
void write_hit(const char *trigger, uint64_t ordinal, const char *kernel, const char *words, uint64_t call);
void begin_watching(void); // when the process has been described
void end_watching(void);   // before the process ends

// Writes a window of one launch that has left the driver: `tell` writes what is in it. False: another one is
// open, or nothing can be written any more.
bool tell_window(uint64_t ordinal, void (*tell)(uint32_t window, uint64_t number, void *state), void *state);

// ---- launches that are watched and not waited for (window/flights.c) ----------------------------

enum flying { FLIGHT_WAITS, FLIGHT_BEGINS, FLIGHT_BEYOND }; // BEYOND: --ring-bandwidth does not allow it
void launch_is_not_watched(void);                           // one that matches, in a pause
enum flying begin_flight(struct call *call);                // before a launch; WAITS: record it as any other
void end_flight(struct call *call, int result);             // of a call that has a flight
void device_may_have_failed(struct call *call, int result); // call: NULL where no launch is told so
void look_for_failure(void);                                // that no call was told yet
void forget_flights(uint64_t context);                      // that is about to end
struct watch_counts;
void count_flights(struct watch_counts *counts);
size_t describe_flights(char *text, size_t room);

// ---- GPU times in the application ---------------------------------------------------------------

bool is_timed_in_window(void);                        // the next launch of the window
struct watched_row *row_of_launch(struct call *call); // NULL: times are not watched
// row, watched: who takes the time; neither: it is written.
void begin_timing(struct call *call, struct list_row *row, struct watched_row *watched);
void launch_was_timed(struct call *call, int result);
void collect_timings(uint64_t context); // of a context that is about to end; 0: of those that have ended
void forget_window_timings(void);       // the next window's launches are its first ones again
