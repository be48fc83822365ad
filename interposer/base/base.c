#include "base/base.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Where a pointer may turn out not to be host memory (a device address under unified addressing), the kernel
// reads it and answers EFAULT instead of a fault in the application.
bool read_memory(void *destination, const void *source, size_t bytes) {
  static atomic_bool refused; // an old container's seccomp profile
  while (bytes > 0 && !atomic_load_explicit(&refused, memory_order_relaxed)) {
    struct iovec to = {destination, bytes}, from = {(void *)(uintptr_t)source, bytes};
    ssize_t done = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (done < 0 && (errno == ENOSYS || errno == EPERM)) {
      atomic_store(&refused, true);
      break;
    }
    if (done <= 0)
      return false;
    destination = (uint8_t *)destination + done;
    source = (const uint8_t *)source + done;
    bytes -= (size_t)done;
  }
  memcpy(destination, source, bytes);
  return true;
}

bool is_zero(const uint8_t *data, size_t bytes) {
  static const uint8_t zeros[4096];
  for (; bytes >= sizeof zeros; data += sizeof zeros, bytes -= sizeof zeros)
    if (memcmp(data, zeros, sizeof zeros) != 0)
      return false;
  return memcmp(data, zeros, bytes) == 0;
}

size_t put_character(char *to, uint32_t character) {
  if (character < 0x20 || character == 0x7f || (character >= 0xd800 && character < 0xe000) ||
      character > 0x10ffff)
    character = '?';
  size_t more = (character >= 0x80) + (character >= 0x800) + (character >= 0x10000);
  static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
  to[0] = (char)(first[more] | character >> 6 * more);
  for (size_t n = 1; n <= more; n++)
    to[n] = (char)(0x80 | (character >> 6 * (more - n) & 0x3f));
  return more + 1;
}

bool has_room_for(void **items, size_t item_bytes, size_t count, size_t *capacity) {
  if (count < *capacity)
    return true;
  size_t larger = *capacity == 0 ? 16 : *capacity * 2;
  void *grown = realloc(*items, larger * item_bytes);
  if (grown == NULL)
    return false;
  *items = grown;
  *capacity = larger;
  return true;
}

// Not by nanosleep(), where a thread may be cancelled: the caller may hold a lock.
void pause_briefly(void) {
  KEEP_ERRNO;
  syscall(SYS_nanosleep, &(struct timespec){0, 20000}, NULL);
}

#ifdef LOSE_TIME
void lose_time(void) {
  static _Thread_local uint64_t state;
  KEEP_ERRNO;
  if (state == 0)
    state = (uint64_t)(uintptr_t)&state;
  state = state * 6364136223846793005u + 1442695040888963407u;
  if (state >> 63 == 0) // one time in two, up to half a millisecond
    nanosleep(&(struct timespec){0, (long)(state >> 33 & 0x7ffff)}, NULL);
}
#endif

// The linker names the ends of the three sections.
#define ENDS_OF(type, section)                                                                               \
  extern type __start_##section[] __attribute__((visibility("hidden")));                                     \
  extern type __stop_##section[] __attribute__((visibility("hidden")))
typedef void (*const reset_function)(void);
ENDS_OF(reset_function, replay_resets);
ENDS_OF(pthread_mutex_t *const, replay_mutexes);
ENDS_OF(char, replay_state);

void reset_in_child(void) {
  for (pthread_mutex_t *const *mutex = __start_replay_mutexes; mutex < __stop_replay_mutexes; mutex++)
    pthread_mutex_init(*mutex, NULL);
  memset(__start_replay_state, 0, (size_t)(__stop_replay_state - __start_replay_state));
  for (reset_function *reset = __start_replay_resets; reset < __stop_replay_resets; reset++)
    (*reset)();
}
