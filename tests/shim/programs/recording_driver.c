// A libcuda.so.1 whose every function hands its argument words to one hook, and answers what that answers.
// calls.inc is made from the table: floats are words by their bits, large structs by their address.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*hook)(int symbol, const uint64_t *words);
static hook chosen;

EXPORT void recording_driver_calls(hook given) { chosen = given; }

static inline uint64_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

#define CALL(number, symbol, parameters, ...)                                                                \
  EXPORT int symbol parameters {                                                                             \
    const uint64_t words[] = {__VA_ARGS__};                                                                  \
    return chosen != NULL ? chosen(number, words) : 3; /* CUDA_ERROR_NOT_INITIALIZED */                      \
  }
#include "calls.inc"
