// The threads that call the driver.
#pragma once

#include "base/macros.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCRATCH_BYTES = 128 * 1024 };

struct known_word { // memory/reach.c
  uint64_t word, state;
};
enum { KNOWN_WORDS = 256 };

// One per thread that has called the driver; never freed, handed on when its thread ends. What every call
// writes has a line of the cache to itself.
struct thread {
  struct thread *next;
  atomic_bool taken;
  atomic_uint inside; // calls of this thread inside the driver that may touch memory
  unsigned depth;     // above 0: a call made by the driver or by the shim itself; passes through
  uint32_t id;        // kernel thread id
  uint8_t *scratch;   // SCRATCH_BYTES, or NULL until a call is recorded
  struct known_word known[KNOWN_WORDS];
};

extern _Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));
struct thread *register_thread(void);
bool thread_has_scratch(struct thread *thread);

static inline struct thread *current_thread(void) {
  struct thread *thread = this_thread;
  return LIKELY(thread != NULL) ? thread : register_thread();
}

extern _Atomic(struct thread *) threads; // the last one that was made; the others follow it
