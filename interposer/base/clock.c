#define _GNU_SOURCE
#include "base/clock.h"

#include <errno.h>
#include <time.h>

uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pause_briefly(void) {
  int error = errno;
  nanosleep(&(struct timespec){0, 20000}, NULL);
  errno = error;
}

#ifdef LOSE_TIME
void lose_time(void) {
  static _Thread_local uint64_t state;
  if (state == 0)
    state = (uint64_t)(uintptr_t)&state;
  state = state * 6364136223846793005u + 1442695040888963407u;
  int error = errno;
  if (state >> 63 == 0) // one time in two, up to half a millisecond
    nanosleep(&(struct timespec){0, (long)(state >> 33 & 0x7ffff)}, NULL);
  errno = error;
}
#endif
