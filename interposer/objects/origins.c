// Where launches came from: stacks of Python frames, each written once (replay/raw/FORMAT.md), and which of
// them the selection asks for.
#include "objects/objects.h"

#include "base/handles.h"
#include "base/selection.h"
#include "objects/python.h"
#include "record/writer.h"

#include <stdio.h>

enum { MOST_FRAMES = 64, MOST_STACKS = 65536, MOST_PLACES = 65536 };

struct known_stack {
  uint32_t number; // from 1; 0: too many others came before it
  bool selected;
};

static MUTEX(lock);
static ZERO_IN_CHILD struct handle_table stacks,
    places; // by their keys; the numbers of places are their objects
static ZERO_IN_CHILD uint32_t stack_count, place_count;
static ZERO_IN_CHILD atomic_bool told_why;

// ---- what is asked for --------------------------------------------------------------------------

// FILE, or FILE:120, or FILE:120-130: `path` is the file, or ends with it after a slash.
static bool is_source(const struct python_place *place) {
  const char *wanted = selection.source;
  size_t length = selection.source_file_bytes, path = strlen(place->file);
  if (path < length || memcmp(place->file + path - length, wanted, length) != 0 ||
      (path > length && wanted[0] != '/' && place->file[path - length - 1] != '/'))
    return false;
  return selection.first_line == 0 || (place->line >= 0 && selection.first_line <= (uint32_t)place->line &&
                                       (uint32_t)place->line <= selection.last_line);
}

// ---- stacks -------------------------------------------------------------------------------------

// The number of a place, from 1; 0: there is no room for it. It is written when it is met for the first time.
static uint32_t number_of_place(uint64_t key, struct python_place *place) {
  const struct handle_row *known = find_handle(&places, key);
  if (known != NULL)
    return (uint32_t)(uintptr_t)known->object;
  static char text[sizeof place->file + sizeof place->function + 64];
  without_home(place->file);
  int length = snprintf(text, sizeof text, "frame.%u=%d\t%s\t%s\n", place_count + 1, place->line, place->file,
                        place->function);
  if (place_count == MOST_PLACES || !add_handle(&places, key, (void *)(uintptr_t)(place_count + 1)))
    return 0;
  write_process_text(text, (size_t)length);
  return ++place_count;
}

// With the lock held. One place is described at a time: they are large, and the application's stack may be
// small.
static struct known_stack *add_stack(uint64_t key, const struct python_frame *frames, unsigned count,
                                     bool more) {
  static struct python_place place;
  char text[MOST_FRAMES * 8 + 64];
  bool writes = stack_count < MOST_STACKS;
  int length = snprintf(text, sizeof text, "stack.%u=", stack_count + 1);
  struct known_stack *stack = calloc(1, sizeof *stack);
  if (stack == NULL)
    return NULL;
  for (unsigned n = 0; n < count; n++) {
    describe_python_frame(&frames[n], &place);
    stack->selected |= selection.source != NULL && is_source(&place);
    uint32_t number = writes ? number_of_place(python_frame_key(&frames[n]), &place) : 0;
    writes = writes && number != 0;
    length += snprintf(text + length, sizeof text - (size_t)length, n > 0 ? " %u" : "%u", number);
  }
  length += snprintf(text + length, sizeof text - (size_t)length, more ? " +\n" : "\n");
  if (writes) {
    stack->number = ++stack_count;
    write_process_text(text, (size_t)length);
  }
  if (!add_handle(&stacks, key, stack)) {
    free(stack);
    return NULL;
  }
  return stack;
}

static void tell_why(void) {
  const char *why = why_no_python();
  if (why != NULL && !atomic_exchange(&told_why, true))
    write_note(NOTE_ORIGIN_UNKNOWN, 0, 0, "Python frames are not known: %s", why);
}

void look_at_origin(struct call *call) {
  struct python_frame frames[MOST_FRAMES];
  bool more;
  unsigned count = python_frames(frames, MOST_FRAMES, &more);
  if (count == 0) {
    tell_why();
    return;
  }
  uint64_t key = more;
  for (unsigned n = 0; n < count; n++)
    key = (key ^ python_frame_key(&frames[n]) ^ key >> 31) * 0x9e3779b97f4a7c15u;
  key = key > DEAD_HANDLE ? key : 2;
  const struct handle_row *known = find_handle(&stacks, key);
  const struct known_stack *stack = known != NULL ? known->object : NULL;
  if (stack == NULL) {
    HOLD(lock);
    known = find_handle(&stacks, key);
    stack = known != NULL ? known->object : add_stack(key, frames, count, more);
  }
  call->origin = stack != NULL ? stack->number : 0;
  call->is_from_source = stack != NULL && stack->selected;
}

// Only what differs from the launch of this thread before it in the window.
void write_origin(struct call *call) {
  struct thread *thread = call->thread;
  uint64_t now = (uint64_t)call->window << 32 | call->origin;
  if (thread->origin == now + 1)
    return;
  char text[96];
  int length = snprintf(text, sizeof text, "origin.%lu=%u %u\n", call->number, thread->id, call->origin);
  write_process_text(text, (size_t)length);
  thread->origin = now + 1;
}
