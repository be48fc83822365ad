// What the table says of the driver's functions.
#pragma once

#include "base/base.h"
#include "generated/table.h"
#include "generated/vocabulary.h"

enum { MAX_PARAMETERS = 16, MAX_TERMS = 3 };

enum {
  FLAG_SYNCHRONIZES = 1, // what it writes into host memory is there when it returns
  FLAG_INPUTS = 2,       // it has parameters that are attached to ENTER
  FLAG_OUTPUTS = 4,      // likewise, to LEAVE
  FLAG_TOUCHES = 8,      // memory: it does not enter the driver while memory is read
  FLAG_WAITS = 16,       // when it returns, the device may have done what came before
};

enum { NODE_ANY = 0xff }; // function.node: what is given says which; or the call is about none

// arguments[first] * arguments[second] * scale; -1: no such factor.
struct term {
  int8_t first, second;
  uint32_t scale;
};

struct parameter {
  uint8_t role;           // enum role
  uint8_t handle;         // enum handle_type: of a handle, or of those that it points to
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
  uint8_t gives; // enum handle_type: of the handles that the application gets
  uint8_t node;  // enum node_type: the executable graph's node whose parameters it replaces
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

static inline const struct parameter *parameter_of(const struct function *function, unsigned position) {
  return &parameters[function->first_parameter + position];
}

// The first parameter that is such a handle; -1: none.
static inline int position_of_handle(const struct function *function, enum handle_type type) {
  for (int n = 0; n < function->parameter_count; n++)
    if (parameter_of(function, (unsigned)n)->role == ROLE_HANDLE &&
        parameter_of(function, (unsigned)n)->handle == type)
      return n;
  return -1;
}

// What a DESTROY ends.
static inline enum handle_type ended_by(const struct function *function) {
  return function->effect == EFFECT_DESTROY
             ? (enum handle_type)parameter_of(function, (unsigned)function->effect_terms[0].first)->handle
             : HANDLE_NONE;
}

static inline bool unloads(const struct function *function) {
  return ended_by(function) == HANDLE_CUmodule || ended_by(function) == HANDLE_CUlibrary;
}

static inline bool makes_context(const struct function *function) {
  return function->effect == EFFECT_RETAIN_PRIMARY ||
         (function->effect == EFFECT_PUSH_CURRENT && function->gives == HANDLE_CUcontext);
}

// Its first argument is a CUlaunchConfig, which holds its geometry and its stream.
static inline bool has_launch_config(const struct function *function) {
  return function->id == ID_cuLaunchKernelEx;
}

// Launches a kernel or a graph.
static inline bool is_any_launch(const struct function *function) {
  return function->effect == EFFECT_LAUNCH || function->effect == EFFECT_GRAPH_LAUNCH;
}
