// The ranges of memory that the application has, and which of them the window has touched (memory.c,
// reach.c).
#pragma once

#include "record/call.h"

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
bool memory_find_allocation(uint64_t address, struct range *found);
void memory_mark(uint64_t base, uint32_t serial, enum range_state state);
void reset_memory_after_fork(void);

// A growing list of ranges; used by the thread that closed the gate, and for short lists on its way there.
struct range_list {
  struct range *items;
  size_t count, capacity;
};
bool list_append(struct range_list *list, const struct range *range);
void list_free(struct range_list *list);
// Untouched ranges that words (8-byte aligned) of `data` point into are marked TOUCHED and appended.
void memory_reach(const void *data, size_t bytes, struct range_list *reached);
// Words that may reach something lie in these spans: of addresses, with room around them, and of handles.
struct word_spans {
  uint64_t address, address_bytes, handle, handles;
};
struct word_spans memory_word_spans(void);
bool memory_may_reach(const void *data, size_t bytes,
                      const struct word_spans *spans); // or holds a tensor map
bool memory_points_to_untouched(const void *data, size_t bytes);
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

// ---- blocks of allocations, as an allocator inside the application tells (blocks.c, hints.c) ----

void memory_block_lives(uint64_t address, uint64_t bytes);
void memory_block_ends(uint64_t address);
bool memory_has_blocks(void);
void memory_cover(uint64_t address, uint64_t bytes); // a call names this memory: it counts as a block
// Words that point between blocks: the stretch around each counts as a block. Returns whether there are any.
bool memory_cover_targets(const void *data, size_t bytes, bool only_ask);
void refresh_hints(void);
void hints_for_launch(const struct call *call);

// ---- physical memory with several addresses (physical.c) ----------------------------------------

void note_physical(const struct call *call);
uint64_t physical_number(uint64_t handle, bool *on_host); // 0: not known
void reset_physical_after_fork(void);

// ---- module variables that no call named (variables.c) ------------------------------------------

void keep_image(struct call *call); // when ENTER is written: where the image is that the call loads
void note_modules(struct call *call, int result);
void want_variables(
    struct kernel *kernel); // those of its module, before a launch; takes no time when they are known
void want_variables_of_launch(const struct call *call);
bool variables_are_wanted(void);
void ask_for_variables(void); // they become ranges of memory. The gate is closed
void reset_variables_after_fork(void);
