// Which launches are captured: what was asked for, the windows that follow from it (window.c), the ranges
// that bound them, and what is kept of every launch beside the windows.
#pragma once

#include "call/call.h"

enum { REACH_REACHABLE, REACH_PARAMETERS, REACH_LIVE };
struct selection {
  bool all, has_kernel, list; // list: launches are counted and nothing is recorded
  bool bounded; // only inside ranges: of this NVTX name, or between cuProfilerStart and cuProfilerStop
  const char *nvtx_range; // NULL: none
  bool profiler;
  bool no_device_hash;
  bool whole_range; // the window is one range, whatever is launched in it
  int reach;
  uint64_t first_launch, last_launch, max_bytes, max_launches;
  uint64_t every; // above 0: a window for each such launch that is selected; 0: one window for all
};
extern struct selection selection;

bool read_selection(void); // from the environment; false: capture was not asked for
bool name_is_selected(const char *name);
void select_launch(struct call *call); // may open the window
void finish_launch(struct call *call); // may close it
// ordinal: of the launch that opens it, 0 when no launch does. Gives its number, 0: one is open, or none will
// be.
uint32_t open_window(struct thread *thread, uint64_t call, uint64_t ordinal);
void open_window_for(struct call *call); // LAUNCH: if none is open
extern _Atomic uint32_t window_number;   // of the present window, or of the last one
// Unless it is closed already. inside_launch: the launch that is the last one has not returned yet.
void close_window(struct thread *thread, uint64_t call, uint32_t number, bool inside_launch);
void reset_windows_after_fork(void);
bool launch_is_outside(void); // counts a matching launch, unless the selection has to look at it
void count_after_end(void);   // a matching launch when the capture is complete or has stopped
void finish_selection(void);  // at exit

// ---- ranges that bound the selection (ranges.c) -------------------------------------------------

bool inside_selected_range(void);
void begin_selected_range(void); // may open the window
void end_selected_range(void);   // may close it
void reset_ranges_after_fork(void);

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
