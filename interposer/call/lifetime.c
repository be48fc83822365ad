// The process under capture from its first driver call to its end, and as the child of a fork.
#define _GNU_SOURCE
#include "call/lifetime.h"

#include "base/fork.h"
#include "base/selection.h"
#include "base/state.h"
#include "base/thread.h"
#include "contents/copy.h"
#include "contents/gate.h"
#include "record/process.h"
#include "record/writer.h"
#include "window/launches.h"
#include "window/window.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static MUTEX(initialising);
static atomic_bool driver_has_answered;
static uint32_t forked_from; // pid of the parent, while this process has not called the driver since fork

bool is_first_success(void) {
  return !atomic_load(&driver_has_answered) && !atomic_exchange(&driver_has_answered, true);
}

static void process_ends(void) {
  int now = current_mode();
  if (now == MODE_UNKNOWN || now == MODE_INERT)
    return;
  struct thread *thread = current_thread();
  thread->depth++;
  finish_selection();
  end_device_hashing(0);
  close_writer();
  atomic_store(&mode, MODE_DONE);
  thread->depth--;
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
  atomic_store(&driver_has_answered, false);
  forked_from = (uint32_t)getppid();
  atomic_store(&mode, MODE_UNKNOWN);
}

void initialise(void) {
  pthread_mutex_lock(&initialising);
  if (current_mode() == MODE_UNKNOWN) {
    const char *directory = getenv(ENV_DIRECTORY);
    if (directory == NULL || directory[0] == '\0' || !read_selection()) {
      atomic_store(&mode, MODE_INERT);
    } else {
      static bool prepared;
      if (!prepared) {
        prepared = true;
        prepare_gate();
        pthread_atfork(NULL, NULL, child_after_fork);
      }
      if (!open_writer(directory)) {
        atomic_store(&mode, MODE_DONE);
      } else {
        describe_process(forked_from);
        if (forked_from != 0)
          write_note(NOTE_CHILD_PROCESS, 0, 0, "forked from process %u", forked_from);
        if (selection.list && !open_launch_list())
          stop_capture("the list of launches cannot be written");
        else
          atomic_store(&mode, MODE_CLOSED);
        if (selection.all)
          open_window(0, 0);
      }
    }
  }
  pthread_mutex_unlock(&initialising);
}
