// The process under capture: its beginning and end.
#pragma once

#include <stdbool.h>

void initialise(void); // at the first driver call

// At-exit handlers run in the opposite order of their registration. This is called again whenever the driver
// may have registered one, so that the last contents are read before the driver takes itself down.
void register_process_end(void);
bool is_first_success(void); // true once: for the first driver call that succeeds in this process
