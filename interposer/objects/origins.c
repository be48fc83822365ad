// Where launches came from: stacks of Python frames and of NVTX ranges around them, each written once
// (replay/raw/FORMAT.md), and which of them the selection asks for.
#include "objects/objects.h"

#include "base/handles.h"
#include "base/selection.h"
#include "objects/python.h"
#include "objects/ranges.h"
#include "record/writer.h"

#include <stdio.h>

enum { MOST_FRAMES = 64, MOST_STACKS = 65536, MOST_PLACES = 65536 };
enum { LEAST_KEY = DEAD_HANDLE + 1 };

struct known_stack {
  uint32_t number; // from 1; 0: too many others came before it
  bool selected;
};

static MUTEX(lock);
static ZERO_IN_CHILD struct handle_table stacks,
    places; // by their keys; the numbers of places are their objects
static ZERO_IN_CHILD uint32_t stack_count, place_count;
static ZERO_IN_CHILD atomic_bool told_why, told_no_ranges;

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

// The number of a frame or a range, from 1; 0: there is no room for it.
static uint32_t known_place(uint64_t key) {
  const struct handle_row *known = find_handle(&places, key);
  return known != NULL ? (uint32_t)(uintptr_t)known->object : 0;
}

// It is written when it is met for the first time.
static uint32_t add_place(uint64_t key, const char *text, size_t length) {
  if (place_count == MOST_PLACES || !add_handle(&places, key, (void *)(uintptr_t)(place_count + 1)))
    return 0;
  write_process_text(text, length);
  return ++place_count;
}

static uint32_t number_of_frame(uint64_t key, struct python_place *place) {
  static char text[sizeof place->file + sizeof place->function + 64];
  uint32_t number = known_place(key);
  if (number != 0)
    return number;
  without_home(place->file);
  int length = snprintf(text, sizeof text, "frame.%u=%d\t%s\t%s\n", place_count + 1, place->line, place->file,
                        place->function);
  return add_place(key, text, (size_t)length);
}

static uint32_t number_of_range(const struct open_range *range) {
  static char text[4 * RANGE_NAME_BYTES];
  uint64_t key = range->key > DEAD_HANDLE ? range->key : LEAST_KEY;
  uint32_t number = known_place(key);
  if (number != 0)
    return number;
  int length = snprintf(text, sizeof text, "range.%u=", place_count + 1);
  return add_place(key, text,
                   (size_t)length + describe_range(range, text + length, sizeof text - (size_t)length));
}

// With the lock held. One place is described at a time: they are large, and the application's stack may be
// small. The ranges are those of this thread, the innermost first as the frames are, and around all of them.
static struct known_stack *add_stack(uint64_t key, const struct python_frame *frames, unsigned count,
                                     bool more, const struct thread *thread) {
  static struct python_place place;
  static char text[(MOST_FRAMES + MOST_RANGES) * 8 + 64];
  bool writes = stack_count < MOST_STACKS && place_count < MOST_PLACES;
  if (!writes && selection.source == NULL)
    return NULL; // so that no more is kept of a program whose every launch has a place of its own
  unsigned ranges = selection.nvtx_stacks ? thread->ranges_open : 0;
  int length = snprintf(text, sizeof text, "stack.%u=", stack_count + 1);
  struct known_stack *stack = calloc(1, sizeof *stack);
  if (stack == NULL)
    return NULL;
  for (unsigned n = 0; n < count + ranges; n++) {
    uint32_t number = 0;
    if (n < count) {
      describe_python_frame(&frames[n], &place);
      stack->selected |= selection.source != NULL && is_source(&place);
    }
    if (writes)
      number = n < count ? number_of_frame(python_frame_key(&frames[n]), &place)
                         : number_of_range(&thread->ranges[count + ranges - 1 - n]);
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

static void tell_no_ranges(void) {
  if (!nvtx_is_used() && !atomic_exchange(&told_no_ranges, true))
    write_note(NOTE_ORIGIN_UNKNOWN, 0, 0, "NVTX ranges are not known: nothing has used NVTX 3 yet");
}

void look_at_origin(struct call *call) {
  struct python_frame frames[MOST_FRAMES];
  bool more = false;
  const struct thread *thread = call->thread;
  unsigned count = selection.python_stacks ? python_frames(frames, MOST_FRAMES, &more) : 0;
  unsigned ranges = selection.nvtx_stacks ? thread->ranges_open : 0;
  if (selection.python_stacks && count == 0)
    tell_why();
  if (count + ranges == 0)
    return;
  uint64_t key = more ^ (ranges > 0 ? thread->ranges[ranges - 1].keys : 0);
  for (unsigned n = 0; n < count; n++)
    key = (key ^ python_frame_key(&frames[n]) ^ key >> 31) * 0x9e3779b97f4a7c15u;
  key = key > DEAD_HANDLE ? key : LEAST_KEY;
  const struct handle_row *known = find_handle(&stacks, key);
  const struct known_stack *stack = known != NULL ? known->object : NULL;
  if (stack == NULL) {
    HOLD(lock);
    known = find_handle(&stacks, key);
    stack = known != NULL ? known->object : add_stack(key, frames, count, more, thread);
  }
  call->origin = stack != NULL ? stack->number : 0;
  call->is_from_source = stack != NULL && stack->selected;
}

// Only what differs from the launch of this thread before it in the window.
void write_origin(struct call *call) {
  struct thread *thread = call->thread;
  if (selection.nvtx_stacks)
    tell_no_ranges();
  uint64_t now = (uint64_t)call->window << 32 | call->origin;
  if (thread->origin == now + 1)
    return;
  char text[96];
  int length = snprintf(text, sizeof text, "origin.%lu=%u %u\n", call->number, thread->id, call->origin);
  write_process_text(text, (size_t)length);
  thread->origin = now + 1;
}
