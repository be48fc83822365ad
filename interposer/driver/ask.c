#include "driver/ask.h"

#include "driver/real.h"

uint64_t current_context(void) {
  static _Atomic(void *) known;
  void *symbol = atomic_load_explicit(&known, memory_order_acquire);
  if (symbol == NULL) {
    symbol = driver_symbol("cuCtxGetCurrent");
    atomic_store_explicit(&known, symbol, memory_order_release);
  }
  uint64_t context = 0;
  int (*get)(uint64_t *) = symbol;
  return get != NULL && get(&context) == SUCCESS ? context : 0;
}

bool push_context(uint64_t context) {
  int (*push)(uint64_t) = driver_symbol("cuCtxPushCurrent_v2");
  return context != 0 && context != current_context() && push != NULL &&
         driver_symbol("cuCtxPopCurrent_v2") != NULL && push(context) == SUCCESS;
}

void pop_context(void) {
  uint64_t popped;
  int (*pop)(uint64_t *) = driver_symbol("cuCtxPopCurrent_v2");
  pop(&popped);
}

bool is_host_visible(uint64_t address) {
  enum { MEMORY_TYPE = 2, IS_MANAGED = 8, TYPE_HOST = 1 }; // CUpointer_attribute, CUmemorytype
  int (*ask)(void *, int, uint64_t) = driver_symbol("cuPointerGetAttribute");
  uint32_t managed = 0, type = 0;
  if (ask == NULL)
    return false;
  if (ask(&managed, IS_MANAGED, address) == SUCCESS && (managed & 0xff) != 0)
    return true;
  return ask(&type, MEMORY_TYPE, address) == SUCCESS && type == TYPE_HOST;
}

uint32_t current_architecture(void) {
  enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; // CUdevice_attribute
  int (*current_device)(int *) = driver_symbol("cuCtxGetDevice");
  int (*get_attribute)(int *, int, int) = driver_symbol("cuDeviceGetAttribute");
  int device, major, minor;
  if (current_device == NULL || get_attribute == NULL || current_device(&device) != SUCCESS ||
      get_attribute(&major, CAPABILITY_MAJOR, device) != SUCCESS ||
      get_attribute(&minor, CAPABILITY_MINOR, device) != SUCCESS)
    return 0;
  return (uint32_t)(major * 10 + minor);
}
