// The real driver: where it is, its functions, and what the shim asks of it.
#pragma once

#include "driver/table.h"

enum {
  SUCCESS = 0,
  ERROR_INVALID_VALUE = 1,
  ERROR_OUT_OF_MEMORY = 2,
  ERROR_DEINITIALIZED = 4,
  ERROR_INVALID_CONTEXT = 201,
  ERROR_SYMBOL_NOT_FOUND = 302,
  ERROR_INVALID_HANDLE = 400,
  ERROR_NOT_READY = 600,
  ERROR_CONTEXT_IS_DESTROYED = 709,
  ERROR_ASSERT = 710
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

// ---- questions ----------------------------------------------------------------------------------

static inline uint64_t word(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

// What the driver answers to one call: at most six arguments, each an integer or the `word` of a pointer,
// which is how the ABI passes them. ERROR_SYMBOL_NOT_FOUND where it lacks the function.
#define ASK(symbol, ...)                                                                                     \
  __extension__({                                                                                            \
    static _Atomic(void *) known_function;                                                                   \
    ask_driver(&known_function, symbol, (const uint64_t[6]){__VA_ARGS__});                                   \
  })
int ask_driver(_Atomic(void *) *known, const char *symbol, const uint64_t arguments[6]);

int driver_version(void);       // 12020 for CUDA 12.2; 0: not known
uint64_t current_context(void); // 0: none
// Makes a context current; true: pop_context has to follow. False also where it is current already.
bool push_context(uint64_t context);
void pop_context(void);
bool is_host_visible(uint64_t address);
int current_device(void);                        // -1: none
int device_attribute(int device, int attribute); // CUdevice_attribute; -1: not known
uint32_t current_architecture(void);             // 90 for compute capability 9.0; 0: not known
