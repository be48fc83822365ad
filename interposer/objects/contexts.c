#include "objects/contexts.h"

#include "base/fork.h"

#include <stdatomic.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

static struct {
  _Atomic uint64_t context;
  atomic_int retained;
} primary[MAX_DEVICES];

void note_contexts(const struct call *call) {
  uint64_t context;
  switch (call->function->id) {
  case ID_cuDevicePrimaryCtxRetain:
    if (call->arguments[1] < MAX_DEVICES && call->arguments[0] != 0) {
      memcpy(&context, (const void *)(uintptr_t)call->arguments[0], 8);
      atomic_store(&primary[call->arguments[1]].context, context);
      atomic_fetch_add(&primary[call->arguments[1]].retained, 1);
    }
    break;
  case ID_cuDevicePrimaryCtxRelease_v2:
    if (call->arguments[0] < MAX_DEVICES)
      atomic_fetch_sub(&primary[call->arguments[0]].retained, 1);
    break;
  default:
    break;
  }
}

uint64_t context_that_ends(const struct call *call) {
  uint64_t argument = call->arguments[0];
  switch (call->function->id) {
  case ID_cuDevicePrimaryCtxReset_v2:
    return argument < MAX_DEVICES ? atomic_load(&primary[argument].context) : 0;
  case ID_cuDevicePrimaryCtxRelease_v2:
    return argument < MAX_DEVICES && atomic_load(&primary[argument].retained) <= 1
               ? atomic_load(&primary[argument].context)
               : 0;
  default:
    return argument;
  }
}

static void reset(void) {
  for (int n = 0; n < MAX_DEVICES; n++) {
    atomic_store(&primary[n].context, 0);
    atomic_store(&primary[n].retained, 0);
  }
}
IN_CHILD(reset);
