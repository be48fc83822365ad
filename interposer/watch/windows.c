// Windows that are written when their launch has left the driver: of launches that were not waited for.
#include "graph/graph.h"
#include "record/writer.h"
#include "watch/watch.h"

MUTEX(windows_change);
ZERO_IN_CHILD atomic_bool any_window;

bool tell_window(uint64_t ordinal, void (*tell)(uint32_t window, uint64_t number, void *state), void *state) {
  HOLD(windows_change);
  if (current_mode() == MODE_OPEN || !writer_is_open())
    return false;
  atomic_store(&any_window, true);
  uint32_t window = atomic_fetch_add(&window_number, 1) + 1;
  uint64_t number = next_call_number();
  write_graph_changes();
  write_note(NOTE_WINDOW_OPEN, 0, number, "launch %lu", ordinal);
  tell(window, number, state);
  describe_perturbation();
  write_note(NOTE_WINDOW_CLOSE, 0, number, "1 launch");
  tell_hit();
  return true;
}
