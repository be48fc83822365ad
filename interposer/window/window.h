// Windows, and what opens and closes them; what a call touches; the list of launches; times.
#pragma once

#include "watch/watch.h"

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

// ---- GPU times in the application ---------------------------------------------------------------

bool is_timed_in_window(void);      // the next launch of the window
void watch_time(struct call *call); // of a launch that no window holds
// row, watched: who takes the time; neither: it is written.
void begin_timing(struct call *call, struct list_row *row, struct watched_row *watched);
void launch_was_timed(struct call *call, int result);
void collect_timings(uint64_t context); // of a context that is about to end; 0: of those that have ended
void forget_window_timings(void);       // the next window's launches are its first ones again
