// The ranges of memory that the application has, and which of them the window has touched.
#pragma once

#include "record/call.h"

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
  bool any_launch;   // may use it: a variable of a module, or what a texture reference was bound to
};

void memory_add(struct range range); // what is overlapped by it has ended
// Of a module or library: address and size; `managed` if the host may use it whatever its address.
void memory_add_variable(const uint64_t found[2], uint64_t context, uint64_t owner, bool managed);
void memory_bind(uint64_t address); // the range that it is in may be used by any launch
void memory_remove(uint64_t base, uint32_t serial);
enum list_filter { LIST_BY_CONTEXT, LIST_BY_OWNER, LIST_BY_SPAN, LIST_ALL };
void memory_remove_all(enum list_filter filter, uint64_t value, uint64_t bytes);
void memory_forget_touches(void);
bool memory_find(uint64_t address, struct range *found); // a block of an allocation, where it has some
void memory_lose(const struct range *range);             // its contents could not be read

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
                 struct range_list *taken);    // untouched ones that overlap, now TOUCHED
bool memory_has_untouched_of(bool any_launch); // what any launch may use, or any range
void memory_take_of(bool any_launch, struct range_list *taken);
bool memory_is_touched_on_host(void); // memory that the host writes with no call of the driver
bool memory_is_on_host(uint64_t address, uint64_t bytes); // any such memory, touched
void memory_list_touched(enum list_filter filter, uint64_t value, uint64_t bytes, struct range_list *list);

// ---- blocks of allocations, as an allocator inside the application tells ------------------------

bool memory_find_allocation(uint64_t address, struct range *found);
bool memory_has_blocks(void);
void memory_cover(uint64_t address, uint64_t bytes); // a call names this memory: it counts as a block
void refresh_hints(void);
void hints_for_launch(const struct call *call);

// ---- physical memory with several addresses -----------------------------------------------------

void physical_made(const struct call *call); // after a call that made it, or brought it in
void physical_retained(const struct call *call);
uint64_t physical_number(uint64_t handle, bool *on_host); // 0: not known

// ---- what can be reached from words -------------------------------------------------------------

// Untouched ranges that words (8-byte aligned) of `data` point into are marked TOUCHED and appended. False:
// no word, nor a tensor map, leads anywhere, and none will while memory_spans stays the same.
bool memory_reach(const void *data, size_t bytes, struct range_list *reached);
bool memory_leads_anywhere(const void *data, size_t bytes); // the same answer; no range is marked
// All ranges that they point into, touched or not, and those that any launch may use; none is marked. False:
// these are not all that they lead to, or there are more than `most`.
bool memory_named(const void *data, size_t bytes, struct range *named, size_t most, size_t *count);
uint64_t memory_spans(void); // another number when words may lead somewhere that did not before
bool memory_points_to_untouched(const void *data, size_t bytes);
