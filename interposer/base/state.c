#include "base/state.h"

#include "base/fork.h"

#include <string.h>

atomic_int mode;
_Atomic uint32_t window_number;
atomic_int captures_under_way;
struct perturbation perturbation;
static _Atomic uint64_t calls;

uint64_t next_call_number(void) { return atomic_fetch_add(&calls, 1) + 1; }
uint64_t last_call_number(void) { return atomic_load(&calls); }

static void reset(void) {
  atomic_store(&calls, 0);
  atomic_store(&captures_under_way, 0);
  memset((void *)&perturbation, 0, sizeof perturbation);
}
IN_CHILD(reset);
