// One small function per swapped symbol, made from the table. replay_NAME is the wrapper of NAME: the shim is
// preloaded, and must not take a program's names (interposer/stand_in).
//
// The closed path (no window, or nothing to capture at all) is decided here, inline: a flag test, for
// launches one lookup, and the driver.
#include "entry/wrappers.h"

#include "base/selection.h"
#include "call/call.h"
#include "contents/contents.h"
#include "driver/real.h"
#include "graph/graph.h"
#include "objects/objects.h"
#include "window/window.h"

static inline uint64_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Whichever call is told first that the device has failed: what is known of its launches is written then.
static inline int looked_at(int result) {
  if (UNLIKELY(result != SUCCESS) && selection.when.in_stream && current_mode() == MODE_CLOSED &&
      current_thread()->depth == 0)
    device_may_have_failed(NULL, result);
  return result;
}

#define REAL(symbol, parameters) ((int(*) parameters)real_function(SLOT_##symbol))

#define RECORDED(symbol, parameters, arguments, ...)                                                         \
  const uint64_t words[] = {__VA_ARGS__};                                                                    \
  struct call call;                                                                                          \
  begin_call(&call, thread, SLOT_##symbol, words);                                                           \
  int result = REAL(symbol, parameters) arguments;                                                           \
  end_call(&call, result);                                                                                   \
  return result;

#define WRAP(passes, symbol, parameters, arguments, ...)                                                     \
  EXPORT int replay_##symbol parameters {                                                                    \
    struct thread *thread = current_thread();                                                                \
    int now = current_mode();                                                                                \
    if (passes || thread->depth > 0)                                                                         \
      return looked_at(REAL(symbol, parameters) arguments);                                                  \
    RECORDED(symbol, parameters, arguments, __VA_ARGS__)                                                     \
  }

#define WRAP_ALWAYS(...) WRAP((now == MODE_INERT || now == MODE_DONE), __VA_ARGS__)

// Stream captures are counted while the window is closed, too.
#define WRAP_COUNTED WRAP_ALWAYS

#define NO_WINDOW (now == MODE_CLOSED || now == MODE_INERT || now == MODE_DONE)
// Touches no memory: such a call may wait for other threads, so nobody waits for it to leave the driver.
#define WRAP_WINDOW(...) WRAP(LIKELY(NO_WINDOW), __VA_ARGS__)
// Writes memory of which the shim knows nothing, outside a window too.
#define WRAP_UNFOLLOWED(...) WRAP((atomic_store(&memory_is_shared, true), NO_WINDOW), __VA_ARGS__)

#define WRAP_MATTERING(matters, symbol, parameters, arguments, ...)                                          \
  EXPORT int replay_##symbol parameters {                                                                    \
    struct thread *thread = current_thread();                                                                \
    if (enter_closed(thread)) {                                                                              \
      if (LIKELY(!(matters))) {                                                                              \
        int result = REAL(symbol, parameters) arguments;                                                     \
        leave_closed(thread);                                                                                \
        return looked_at(result);                                                                            \
      }                                                                                                      \
      turn_back(thread);                                                                                     \
    }                                                                                                        \
    RECORDED(symbol, parameters, arguments, __VA_ARGS__)                                                     \
  }

#define WRAP_TOUCHING(...) WRAP_MATTERING(false, __VA_ARGS__)

#define WRAP_LAUNCH(symbol, parameters, arguments, launched, ...)                                            \
  WRAP_MATTERING(launch_matters(thread, launched), symbol, parameters, arguments, __VA_ARGS__)

#define WRAP_GRAPH(symbol, parameters, arguments, launched, ...)                                             \
  WRAP_MATTERING(graph_matters(thread, launched), symbol, parameters, arguments, __VA_ARGS__)

// A call that the driver refuses has done nothing that a replay could lack.
#define PASS(symbol, parameters, arguments)                                                                  \
  EXPORT int replay_##symbol parameters {                                                                    \
    int result = REAL(symbol, parameters) arguments;                                                         \
    if (UNLIKELY(current_mode() >= MODE_CLOSED) && result == SUCCESS)                                        \
      note_uncaptured(SLOT_##symbol);                                                                        \
    return looked_at(result);                                                                                \
  }

#include "generated/wrappers.inc"

void *const wrappers[SLOT_COUNT] = {
#define SLOT(symbol, ...) (void *)replay_##symbol,
#include "generated/slots.inc"
};
