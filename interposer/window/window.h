// Windows, and what opens and closes them.
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

// A range that bounds the selection (base/selection.h).
void begin_selected_range(void); // may open the window
void end_selected_range(void);   // may close it
