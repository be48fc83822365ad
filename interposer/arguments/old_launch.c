// The launch protocol of CUDA 2 and 3: block shape, shared memory and parameters are state of a function,
// which cuLaunch and its like launch. The state is followed from the first driver call on, and a launch is
// recorded with all of it.
#include "arguments/arguments.h"

#include "base/bytes.h"
#include "objects/kernels.h"
#include "record/encode.h"
#include "record/writer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OLD_PARAMETER_BYTES = 4096 };

struct old_launch {
  uint32_t block[3], shared_bytes, parameter_bytes;
  uint8_t parameters[MAX_OLD_PARAMETER_BYTES];
};

bool is_old_launch(const struct call *call) {
  switch (call->function->id) {
  case ID_cuLaunch:
  case ID_cuLaunchGrid:
  case ID_cuLaunchGridAsync:
    return true;
  default:
    return false;
  }
}

static struct old_launch *state_of(const struct call *call) {
  struct kernel *kernel = kernel_of_handle(call->arguments[0]);
  if (kernel->handle != call->arguments[0])
    return NULL; // the kernel of all handles that nobody knows
  if (kernel->old_launch == NULL)
    kernel->old_launch = calloc(1, sizeof *kernel->old_launch);
  return kernel->old_launch;
}

static void set_parameter(const struct call *call, const void *value, uint64_t bytes) {
  struct old_launch *state = state_of(call);
  uint64_t offset = call->arguments[1];
  if (state != NULL && bytes <= MAX_OLD_PARAMETER_BYTES && offset <= MAX_OLD_PARAMETER_BYTES - bytes)
    read_memory(state->parameters + offset, value, bytes);
}

void note_old_launch(const struct call *call) {
  const uint64_t *words = call->arguments;
  struct old_launch *state;
  switch (call->function->id) {
  case ID_cuFuncSetBlockShape:
    if ((state = state_of(call)) != NULL)
      for (int axis = 0; axis < 3; axis++)
        state->block[axis] = (uint32_t)words[1 + axis];
    break;
  case ID_cuFuncSetSharedSize:
    if ((state = state_of(call)) != NULL)
      state->shared_bytes = (uint32_t)words[1];
    break;
  case ID_cuParamSetSize:
    if ((state = state_of(call)) != NULL && words[1] <= MAX_OLD_PARAMETER_BYTES)
      state->parameter_bytes = (uint32_t)words[1];
    break;
  case ID_cuParamSeti:
  case ID_cuParamSetf: // the word is the number's bits
    set_parameter(call, &words[2], 4);
    break;
  case ID_cuParamSetv:
    set_parameter(call, (const void *)(uintptr_t)words[2], words[3]);
    break;
  default:
    break;
  }
}

void old_launch_geometry(const struct call *call, uint32_t geometry[7]) {
  const struct old_launch *state = state_of(call);
  bool grid = call->function->id != ID_cuLaunch;
  geometry[0] = grid ? (uint32_t)call->arguments[1] : 1;
  geometry[1] = grid ? (uint32_t)call->arguments[2] : 1;
  geometry[2] = 1;
  for (int axis = 0; axis < 3; axis++)
    geometry[3 + axis] = state != NULL ? state->block[axis] : 0;
  geometry[6] = state != NULL ? state->shared_bytes : 0;
}

void pack_old_launch(struct call *call) {
  const struct old_launch *state = state_of(call);
  uint8_t *copy = state != NULL ? take_scratch(call, state->parameter_bytes) : NULL;
  if (copy == NULL) {
    write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number, "%s", call->kernel->name);
    return;
  }
  memcpy(copy, state->parameters, state->parameter_bytes);
  call->packed = copy;
  call->packed_bytes = state->parameter_bytes;
}

void attach_old_launch(struct call *call) {
  uint32_t *geometry = take_scratch(call, 7 * sizeof *geometry);
  if (geometry == NULL || call->packed == NULL)
    return;
  old_launch_geometry(call, geometry);
  attach(call, 0, 2, call->packed, call->packed_bytes);
  attach(call, 0, 3, geometry, 7 * sizeof *geometry);
}
