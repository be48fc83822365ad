// The ranges of memory that the application has, and which of them the window has touched.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_ADDRESSES ((uint64_t)0xa77a << 48) // where the ranges of arrays begin: no memory is there

enum range_kind { RANGE_DEVICE, RANGE_MANAGED, RANGE_HOST, RANGE_GLOBAL, RANGE_ARRAY };
enum range_state { RANGE_UNTOUCHED, RANGE_TOUCHED, RANGE_LOST };

struct range {
  uint64_t base, bytes;
  uint64_t context;  // current when it was allocated, 0 for none
  uint64_t owner;    // RANGE_GLOBAL: its module or library; RANGE_ARRAY: the array
  uint64_t physical; // number that all mappings of one physical allocation have, 0 for none
  uint32_t serial;   // tells a new range from an old one at the same address
  uint8_t kind, state;
  bool host_visible; // the host reads and writes it with no call of the driver
};

void memory_add(uint64_t base, uint64_t bytes, enum range_kind kind, uint64_t context, uint64_t owner);
void memory_remove(uint64_t base, uint32_t serial);
void memory_remove_owner(uint64_t owner);
void memory_remove_context(uint64_t context);
void memory_forget_touches(void);
bool memory_find(uint64_t address, struct range *found); // a block of an allocation, where it has some
void memory_mark(uint64_t base, uint32_t serial, enum range_state state);

// A growing list of ranges; used by the thread that closed the gate, and for short lists on its way there.
struct range_list {
  struct range *items;
  size_t count, capacity;
};
bool list_append(struct range_list *list, const struct range *range);
void list_free(struct range_list *list);
bool memory_has_untouched(uint64_t address, uint64_t bytes);
uint64_t memory_state(void); // another number whenever more may be untouched than before
void memory_take(uint64_t address, uint64_t bytes,
                 struct range_list *taken);        // untouched ones that overlap, now TOUCHED
bool memory_has_untouched_kind(bool globals_only); // module variables, or any range
void memory_take_kind(bool globals_only, struct range_list *taken);
bool memory_is_touched_on_host(void); // memory that the host writes with no call of the driver
bool memory_is_on_host(uint64_t address, uint64_t bytes); // any such memory, touched
void memory_set_physical(uint64_t base, uint64_t physical);
void memory_make_host_visible(uint64_t base); // a managed variable
enum list_filter { LIST_BY_CONTEXT, LIST_BY_OWNER, LIST_BY_SPAN, LIST_ALL };
void memory_list_touched(enum list_filter filter, uint64_t value, uint64_t bytes, struct range_list *list);
bool memory_has_touched(enum list_filter filter, uint64_t value, uint64_t bytes);
