// Python frames of the thread that launches.
#pragma once

#include "base/base.h"

struct python_frame {
  const uint8_t *code; // the code object
  int32_t byte;        // in its instructions
};

struct python_place {
  int line; // -1: not known
  char file[4096], function[1024];
};

// Of this thread, the innermost first. 0: it runs no Python, or its frames are not known. more: there are
// more than `most`.
unsigned python_frames(struct python_frame *frames, unsigned most, bool *more);
uint64_t python_frame_key(const struct python_frame *frame); // the same for the same place in the same code
void describe_python_frame(const struct python_frame *frame, struct python_place *place);
const char *why_no_python(void); // NULL: frames can be read
