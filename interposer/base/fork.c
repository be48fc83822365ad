#include "base/fork.h"

// The linker names the ends of the two sections.
extern void (*const __start_replay_resets[])(void) __attribute__((visibility("hidden")));
extern void (*const __stop_replay_resets[])(void) __attribute__((visibility("hidden")));
extern pthread_mutex_t *const __start_replay_mutexes[] __attribute__((visibility("hidden")));
extern pthread_mutex_t *const __stop_replay_mutexes[] __attribute__((visibility("hidden")));

void reset_in_child(void) {
  for (pthread_mutex_t *const *mutex = __start_replay_mutexes; mutex < __stop_replay_mutexes; mutex++)
    pthread_mutex_init(*mutex, NULL);
  for (void (*const *reset)(void) = __start_replay_resets; reset < __stop_replay_resets; reset++)
    (*reset)();
}
