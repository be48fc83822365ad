// What an allocator inside the application says about the blocks of its allocations (docs/hints.md): reach
// then stops at the borders of blocks instead of those of what the driver allocated.
#include "memory/hints.h"

#include "base/macros.h"
#include "base/state.h"
#include "base/thread.h"
#include "memory/blocks.h"

#include <errno.h>

static _Atomic(void *) refresher;

static bool is_wanted(void) {
  int now = current_mode();
  return now == MODE_UNKNOWN || now == MODE_CLOSED || now == MODE_OPEN;
}

EXPORT void replay_hint_block_lives(uint64_t address, uint64_t bytes) {
  int error = errno;
  if (is_wanted())
    memory_block_lives(address, bytes);
  errno = error;
}

EXPORT void replay_hint_block_ends(uint64_t address) {
  int error = errno;
  if (is_wanted())
    memory_block_ends(address);
  errno = error;
}

EXPORT void replay_hint_refresh_with(void (*refresh)(void)) { atomic_store(&refresher, (void *)refresh); }

// In the thread that makes the call, before the gate is closed: the refresher may wait for an interpreter's
// lock that a thread at the gate holds. What it asks of the driver is not the application's.
void refresh_hints(void) {
  void (*refresh)(void) = (void (*)(void))atomic_load(&refresher);
  if (refresh == NULL)
    return;
  struct thread *thread = current_thread();
  thread->depth++;
  refresh();
  thread->depth--;
}

// A kernel may be given a block that no hint has told of yet, which then is inside a segment and in no block.
void hints_for_launch(const struct call *call) {
  if (call->function->effect != EFFECT_LAUNCH || call->packed == NULL ||
      !memory_cover_targets(call->packed, call->packed_bytes, true))
    return;
  refresh_hints();
  memory_cover_targets(call->packed, call->packed_bytes, false);
}
