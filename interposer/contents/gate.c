// Threads, and the gate that keeps them apart while contents of memory are read.
//
// The gate is closed by one thread. Others wait at it before a call that touches memory; calls that are
// inside the driver already are waited for, in bounded time. Waiting is bounded in the other direction as
// well: while the thread that closed the gate waits for the device, the device may be waiting (a host
// function, a spinning kernel) for something that only a thread at the gate will do.
#define _GNU_SOURCE
#include "contents/gate.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/macros.h"
#include "record/writer.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t patience_inside_ns = 200000000;  // for calls inside the driver
static const uint64_t patience_device_ns = 1000000000; // at the gate, while its owner waits for the device

static _Atomic(struct thread *) gate_owner;
static atomic_bool owner_waits_for_device;

void prepare_gate(void) { syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0); }

// False: the owner has waited for the device for longer than this thread has patience.
static bool wait_at_gate(struct thread *thread) {
  struct thread *waited_for = NULL;
  uint64_t waiting_since = 0;
  for (;;) {
    struct thread *owner = atomic_load(&gate_owner);
    if (owner == NULL || owner == thread) {
      lose_time();
      return true;
    }
    if (owner != waited_for || !atomic_load(&owner_waits_for_device))
      waiting_since = 0;
    else if (waiting_since == 0)
      waiting_since = now_ns();
    else if (now_ns() - waiting_since > patience_device_ns)
      return false;
    waited_for = owner;
    pause_briefly();
  }
}

// A gate that is open while this thread waits may be closed by the next before it counts as inside, so it
// looks again.
bool pass_gate(struct thread *thread) {
  for (bool patient = true;;) {
    count_inside(thread);
    lose_time();
    struct thread *owner = atomic_load_explicit(&gate_owner, memory_order_relaxed);
    if (LIKELY(owner == NULL || owner == thread))
      return true;
    if (!patient)
      return false;
    count_outside(thread);
    patient = wait_at_gate(thread);
  }
}

bool close_gate(struct thread *thread, uint64_t call) {
  for (;;) {
    struct thread *none = NULL;
    if (atomic_compare_exchange_strong(&gate_owner, &none, thread))
      break;
    if (none == thread)
      return true;
    if (!wait_at_gate(thread))
      return false;
  }
  lose_time();
  // After this, a thread that did not see the gate closed has its `inside` visible here.
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  atomic_thread_fence(memory_order_seq_cst);
  uint64_t deadline = now_ns() + patience_inside_ns;
  unsigned busy = 0;
  for (struct thread *other = atomic_load(&threads); other != NULL; other = other->next) {
    while (other != thread && atomic_load(&other->inside) > 0) {
      if (now_ns() > deadline) {
        busy++;
        break;
      }
      pause_briefly();
    }
  }
  if (busy > 0)
    write_note(NOTE_THREADS_BUSY, 0, call,
               "%u other thread%s inside the driver while contents were read, for longer than is waited; "
               "what its call was changing may be captured half changed: where outputs differ, capture again",
               busy, busy == 1 ? " was" : "s were");
  return true;
}

void open_gate(struct thread *thread) {
  atomic_store(&owner_waits_for_device, false);
  struct thread *owner = thread;
  atomic_compare_exchange_strong(&gate_owner, &owner, NULL);
}

void gate_is_waiting_for_device(bool waiting) { atomic_store(&owner_waits_for_device, waiting); }

static void reset(void) {
  atomic_store(&gate_owner, NULL);
  atomic_store(&owner_waits_for_device, false);
}
IN_CHILD(reset);
