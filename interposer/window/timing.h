// GPU times in the application.
#pragma once

#include "record/call.h"

struct list_row; // of the list of launches

bool is_timed(uint64_t launch); // the n-th of its kind
bool is_timed_in_window(void);  // the next launch of the window
void begin_timing(struct call *call, struct list_row *row);
void launch_was_timed(struct call *call, int result);
void collect_timings(uint64_t context); // of a context that is about to end; 0: of those that have ended
void forget_window_timings(void);       // the next window's launches are its first ones again
