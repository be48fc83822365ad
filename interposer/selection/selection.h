// Which launches are captured: what was asked for, the windows that follow from it (window.c), the ranges
// that bound them, and what is kept of every launch beside the windows.
#pragma once

#include "record/call.h"

void select_launch(struct call *call); // may open the window
void finish_launch(struct call *call); // may close it
// ordinal: of the launch that opens it, 0 when no launch does. Gives its number, 0: one is open, or none will
// be.
uint32_t open_window(uint64_t call, uint64_t ordinal);
void open_window_for(struct call *call); // LAUNCH: if none is open
// Unless it is closed already. inside_launch: the launch that is the last one has not returned yet.
void close_window(struct thread *thread, uint64_t call, uint32_t number, bool inside_launch);
void finish_selection(void); // at exit

// ---- ranges that bound the selection (ranges.c) -------------------------------------------------

void begin_selected_range(void); // may open the window
void end_selected_range(void);   // may close it

// ---- the list of launches (launches.c) ----------------------------------------------------------

bool open_launch_list(void);
void reset_launch_list_after_fork(void);
void list_launches_of(struct call *call);
struct list_row;
void add_listed_time(struct list_row *row, uint64_t time_ns);

// ---- GPU times in the application (timing.c) ----------------------------------------------------

bool is_timed(uint64_t launch); // the n-th of its kind
void begin_timing(struct call *call, struct list_row *row);
void launch_was_timed(struct call *call, int result);
void collect_timings(uint64_t context); // of a context that is about to end; 0: of those that have ended
void reset_timings_after_fork(void);
void forget_window_timings(void); // the next window's launches are its first ones again
