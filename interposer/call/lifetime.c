// The process under capture from its first driver call to its end, and as the child of a fork.
#include "base/selection.h"
#include "call/call.h"
#include "contents/copy.h"
#include "record/writer.h"
#include "window/window.h"

#include <unistd.h>

static MUTEX(initialising);
static ZERO_IN_CHILD atomic_bool driver_has_answered;
static uint32_t forked_from; // pid of the parent, while this process has not called the driver since fork

bool is_first_success(void) {
  return !atomic_load(&driver_has_answered) && !atomic_exchange(&driver_has_answered, true);
}

static void process_ends(void) {
  int now = current_mode();
  if (now == MODE_UNKNOWN || now == MODE_INERT)
    return;
  UNSEEN;
  finish_selection();
  close_writer();
  atomic_store(&mode, MODE_DONE);
}

void register_process_end(void) {
  static atomic_int registrations;
  if (atomic_fetch_add(&registrations, 1) < 16)
    atexit(process_ends);
}

static void child_after_fork(void) {
  int now = current_mode();
  if (now == MODE_INERT || now == MODE_UNKNOWN)
    return;
  reset_in_child();
  forked_from = (uint32_t)getppid();
  atomic_store(&mode, MODE_UNKNOWN);
}

void initialise(void) {
  static bool prepared;
  HOLD(initialising);
  if (current_mode() != MODE_UNKNOWN)
    return;
  const char *directory = capture_directory();
  if (directory == NULL || !read_selection()) {
    atomic_store(&mode, MODE_INERT);
    return;
  }
  if (!prepared) {
    prepare_gate();
    pthread_atfork(NULL, NULL, child_after_fork);
  }
  prepared = true;
  if (!open_writer(directory)) {
    atomic_store(&mode, MODE_DONE);
    return;
  }
  describe_process(forked_from);
  begin_watching();
  if (forked_from != 0)
    write_note(NOTE_CHILD_PROCESS, 0, 0, "forked from process %u", forked_from);
  if (selection.list && !open_launch_list())
    stop_capture("the list of launches cannot be written");
  else
    atomic_store(&mode, MODE_CLOSED);
  if (selection.all)
    open_window(0, 0);
}
