// What a child of fork does with the state that it has of its parent. Each file registers its own, when it is
// compiled: nothing runs before the first driver call.
#pragma once

#include <pthread.h>

#define REGISTERED(section_name) __attribute__((section(section_name), used))

// `reset` runs in the child, in the only thread that it has; in which order is not said.
#define IN_CHILD(reset) static void (*const reset##_registered)(void) REGISTERED("replay_resets") = reset

// A mutex that is free again in the child: who held it stayed in the parent.
#define MUTEX(name)                                                                                          \
  pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                                          \
  static pthread_mutex_t *const name##_registered REGISTERED("replay_mutexes") = &name

void reset_in_child(void);
