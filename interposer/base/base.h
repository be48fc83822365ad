// What every layer uses: of C and of the compiler, bytes, time, locks, and the state that a fork begins anew.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

// The application's errno, which is set again at the end of the block.
#define KEEP_ERRNO const int kept_errno __attribute__((cleanup(restore_errno))) = errno
static inline void restore_errno(const int *kept) { errno = *kept; }

// Holds a mutex to the end of the block.
#define HOLD(mutex)                                                                                          \
  pthread_mutex_t *const mutex##_held __attribute__((cleanup(release_mutex))) = &(mutex);                    \
  pthread_mutex_lock(mutex##_held)
static inline void release_mutex(pthread_mutex_t *const *mutex) { pthread_mutex_unlock(*mutex); }

// ---- bytes --------------------------------------------------------------------------------------

bool read_memory(void *destination, const void *source, size_t bytes); // false: not readable
bool is_zero(const uint8_t *data, size_t bytes);
static inline uint64_t word_at(const void *data, size_t offset) {
  uint64_t word;
  memcpy(&word, (const uint8_t *)data + offset, sizeof word);
  return word;
}
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes); // crc32c.c
// As UTF-8, in up to 4 bytes; ? for what would end a line or a field, and for what is no character.
size_t put_character(char *to, uint32_t character);
// Room for one more item in an array on the heap, which may move. False: no memory, and nothing has changed.
#define HAS_ROOM(items, count, capacity) has_room_for((void **)&(items), sizeof *(items), count, &(capacity))
bool has_room_for(void **items, size_t item_bytes, size_t count, size_t *capacity);

// ---- time ---------------------------------------------------------------------------------------

static inline uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
static inline uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
void pause_briefly(void); // 20 us and what the system adds; keeps errno
// A build for tests: threads lose time wherever another one may overtake them.
#ifdef LOSE_TIME
void lose_time(void);
#else
static inline void lose_time(void) {}
#endif

// ---- a child of fork ----------------------------------------------------------------------------

// What a child does with the state that it has of its parent. Each file registers its own, when it is
// compiled: nothing runs before the first driver call.
#define REGISTERED(section_name) __attribute__((section(section_name), used))

// A variable that is all zeros at first, and in the child again. What it leads to is left alone: another
// thread of the parent may have been in the middle of a change.
#define ZERO_IN_CHILD __attribute__((section("replay_state")))

// `reset` runs in the child, in the only thread that it has; in which order is not said.
#define IN_CHILD(reset) static void (*const reset##_registered)(void) REGISTERED("replay_resets") = reset

// A mutex that is free again in the child: who held it stayed in the parent.
#define MUTEX(name)                                                                                          \
  pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                                          \
  static pthread_mutex_t *const name##_registered REGISTERED("replay_mutexes") = &name

void reset_in_child(void);
