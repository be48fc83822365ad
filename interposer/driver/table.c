#include "driver/table.h"

const struct parameter parameters[] = {
#define PARAMETER(role, handle, size_bytes, element_bytes, ...)                                              \
  {role, handle, size_bytes, element_bytes, __VA_ARGS__},
#include "generated/functions.inc"
#undef PARAMETER
};

const struct function functions[FUNCTION_COUNT] = {
#define FUNCTION(record_id, id, symbol, keep, effect, first, count, flags, stream, gives, node, unsupported, \
                 ...)                                                                                        \
  {record_id, id,    keep, effect,  first,       count,        flags,                                        \
   stream,    gives, node, #symbol, unsupported, {__VA_ARGS__}},
#include "generated/functions.inc"
#undef FUNCTION
};

const struct slot slots[SLOT_COUNT] = {
#define SLOT(symbol, function, per_thread, reason) {#symbol, function, per_thread, reason},
#include "generated/slots.inc"
};

static int compare_symbols(const void *symbol, const void *slot) {
  return strcmp(symbol, ((const struct slot *)slot)->symbol);
}

int slot_of_symbol(const char *symbol) {
  const struct slot *found = bsearch(symbol, slots, SLOT_COUNT, sizeof *slots, compare_symbols);
  return found != NULL ? (int)(found - slots) : -1;
}
