// The real driver: where it is, and its functions.
#pragma once

#include "base/macros.h"
#include "driver/table.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
  SUCCESS = 0,
  ERROR_INVALID_VALUE = 1,
  ERROR_OUT_OF_MEMORY = 2,
  ERROR_DEINITIALIZED = 4,
  ERROR_INVALID_CONTEXT = 201,
  ERROR_SYMBOL_NOT_FOUND = 302,
  ERROR_INVALID_HANDLE = 400,
  ERROR_NOT_READY = 600,
  ERROR_CONTEXT_IS_DESTROYED = 709
};

extern _Atomic(void *) real_functions[SLOT_COUNT];
void *resolve_real(unsigned slot); // never NULL: a function that answers ERROR_SYMBOL_NOT_FOUND at worst

static inline void *real_function(unsigned slot) {
  void *real = atomic_load_explicit(&real_functions[slot], memory_order_acquire);
  return LIKELY(real != NULL) ? real : resolve_real(slot);
}

// A function of the real driver that the shim itself calls; NULL when the driver has none of that name.
void *driver_symbol(const char *symbol);
char *driver_path(void); // links resolved, to be freed; NULL when unknown

// ---- what reaches the driver through the shim ---------------------------------------------------

extern void *(*real_dlsym)(void *handle, const char *name) __attribute__((visibility("hidden")));
void find_real_dlsym(void);
bool is_of_stand_in(const void *function); // its code is a jump to a wrapper
bool is_of_driver(void *found); // a function, or a variable of the same name. A program may have its own
void remember_driver(void *application_handle, void *function);
void remember_real(unsigned slot, void *function);
int symbol_not_found(void); // what a function that the driver does not have answers
