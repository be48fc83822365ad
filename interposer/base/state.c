#include "base/state.h"

#include "base/selection.h"

#include <sys/syscall.h>
#include <unistd.h>

atomic_int mode;
_Atomic uint32_t window_number;
ZERO_IN_CHILD atomic_int captures_under_way;
atomic_bool memory_is_shared;
ZERO_IN_CHILD struct perturbation perturbation;
static ZERO_IN_CHILD _Atomic uint64_t calls;

uint64_t next_call_number(void) { return atomic_fetch_add(&calls, 1) + 1; }
uint64_t last_call_number(void) { return atomic_load(&calls); }

// ---- threads ------------------------------------------------------------------------------------

_Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));
_Atomic(struct thread *) threads;
static pthread_key_t thread_ends;
static atomic_int thread_ends_made;

static void hand_thread_on(void *thread) {
  this_thread = NULL;
  atomic_fetch_and(&((struct thread *)thread)->inside, ~(uint64_t)(ALL_INSIDE - 1));
  atomic_store(&((struct thread *)thread)->taken, false);
}

struct thread *register_thread(void) {
  static struct thread
      spare; // when even this little memory cannot be allocated: shared, and only ever passed through
  int state = 0;
  if (atomic_compare_exchange_strong(&thread_ends_made, &state, 1))
    atomic_store(&thread_ends_made, pthread_key_create(&thread_ends, hand_thread_on) == 0 ? 2 : 3);
  struct thread *thread = atomic_load(&threads);
  for (; thread != NULL; thread = thread->next) {
    bool taken = false;
    if (atomic_compare_exchange_strong(&thread->taken, &taken, true))
      break;
  }
  if (thread == NULL) {
    enum { CACHE_LINE_BYTES = 64 };
    void *room;
    if (posix_memalign(&room, CACHE_LINE_BYTES, sizeof *thread) != 0) {
      spare.depth = 1;
      return &spare;
    }
    thread = memset(room, 0, sizeof *thread);
    atomic_store(&thread->taken, true);
    thread->next = atomic_load(&threads);
    while (!atomic_compare_exchange_weak(&threads, &thread->next, thread)) {
    }
  }
  thread->depth = 0;
  thread->origin = 0;
  thread->ranges_open = 0;
  thread->id = (uint32_t)syscall(SYS_gettid);
  this_thread = thread;
  if (atomic_load(&thread_ends_made) == 2)
    pthread_setspecific(thread_ends, thread);
  return thread;
}

ZERO_IN_CHILD struct rooms rooms;

bool take_room(uint64_t bytes) {
  uint64_t limit = selection.when.memory, taken = atomic_load(&rooms.taken);
  do {
    if (limit != 0 && (bytes > limit || taken > limit - bytes)) {
      atomic_fetch_add(&rooms.refused, 1);
      return false;
    }
  } while (!atomic_compare_exchange_weak(&rooms.taken, &taken, taken + bytes));
  return true;
}

void give_room(uint64_t bytes) { atomic_fetch_sub(&rooms.taken, bytes); }

void *room_for(size_t bytes) {
  return take_room(bytes) ? calloc(1, bytes) : NULL; // without memory there will be none for anything else
}

bool thread_has_scratch(struct thread *thread) {
  if (thread->scratch == NULL && take_room(SCRATCH_BYTES))
    thread->scratch = malloc(SCRATCH_BYTES);
  return thread->scratch != NULL;
}

// The other threads stayed in the parent. This one may be inside a call only if the driver itself forked.
static void keep_this_thread(void) {
  for (struct thread *thread = atomic_load(&threads); thread != NULL; thread = thread->next) {
    atomic_store(&thread->inside, 0);
    thread->origin = 0;
    if (thread != this_thread)
      atomic_store(&thread->taken, false);
    else
      thread->id = (uint32_t)syscall(SYS_gettid);
  }
  if (this_thread != NULL)
    this_thread->depth = 0;
}
IN_CHILD(keep_this_thread);
