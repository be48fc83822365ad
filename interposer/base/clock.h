// Time, and waiting for a little of it.
#pragma once

#include <stdint.h>

uint64_t now_ns(void);    // CLOCK_MONOTONIC
void pause_briefly(void); // 20 us and what the system adds; keeps errno
// A build for tests: threads lose time wherever another one may overtake them.
#ifdef LOSE_TIME
void lose_time(void);
#else
static inline void lose_time(void) {}
#endif
