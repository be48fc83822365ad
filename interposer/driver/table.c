#include "driver/table.h"

#include <string.h>

const struct parameter parameters[] = {
#define PARAMETER(role, size_bytes, element_bytes, ...) {role, size_bytes, element_bytes, __VA_ARGS__},
#include "generated/functions.inc"
#undef PARAMETER
};

const struct function functions[FUNCTION_COUNT] = {
#define FUNCTION(record_id, id, symbol, keep, effect, first, count, flags, stream, unsupported, ...)         \
  {record_id, id, keep, effect, first, count, flags, stream, #symbol, unsupported, {__VA_ARGS__}},
#include "generated/functions.inc"
#undef FUNCTION
};

const struct slot slots[SLOT_COUNT] = {
#define SLOT(symbol, function, per_thread, reason) {#symbol, function, per_thread, reason},
#include "generated/slots.inc"
};

int slot_of_symbol(const char *symbol) {
  int low = 0, high = SLOT_COUNT - 1;
  while (low <= high) {
    int middle = (low + high) / 2;
    int order = strcmp(symbol, slots[middle].symbol);
    if (order == 0)
      return middle;
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return -1;
}
