// What the table says of the driver's functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "generated/table.h"
#include "generated/vocabulary.h"

enum { MAX_PARAMETERS = 16, MAX_TERMS = 3 };

enum { FLAG_CUSTOM = 1, FLAG_SYNCHRONIZES = 2, FLAG_INPUTS = 4, FLAG_OUTPUTS = 8 };

// arguments[first] * arguments[second] * scale; -1: no such factor.
struct term {
  int8_t first, second;
  uint32_t scale;
};

struct parameter {
  uint8_t role;           // enum role
  uint8_t size_bytes;     // as an argument
  uint16_t element_bytes; // of the pointee
  struct term count;      // elements that the pointer leads to
};

struct function {
  uint16_t record_id; // in a record
  uint16_t id;        // of the newest version that does the same with the same parameters: what code looks at
  uint8_t keep;       // enum keep
  uint8_t effect;     // enum effect
  uint16_t first_parameter;
  uint8_t parameter_count;
  uint8_t flags;
  int8_t stream; // position of the stream that the call goes to; -1: none
  const char *symbol;
  const char *unsupported; // why it is not replayed; "" when it is
  struct term effect_terms[MAX_TERMS];
};

// A symbol that has a wrapper.
struct slot {
  const char *symbol;
  int16_t function; // position in `functions`; -1: calls are not recorded
  uint8_t per_thread;
  const char *reason; // why a call inside a window has to be noted
};

extern const struct parameter parameters[];
extern const struct function functions[];
extern const struct slot slots[];
int slot_of_symbol(const char *symbol); // -1: has no wrapper

// Launches a kernel or a graph.
static inline bool is_any_launch(const struct function *function) {
  return function->effect == EFFECT_LAUNCH || function->effect == EFFECT_GRAPH_LAUNCH;
}
