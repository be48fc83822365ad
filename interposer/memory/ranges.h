// The ranges as memory.c, blocks.c and reach.c share them. All of this with the lock held.
#pragma once

#include "memory/memory.h"

extern pthread_mutex_t ranges_lock;
extern struct range_list ranges; // sorted by address; they do not overlap
// Every range lies in [lowest, highest), those of arrays apart; they only grow, and are read with no lock.
extern _Atomic uint64_t lowest_address, highest_address;

size_t position_of(uint64_t address);                   // of the first range whose end lies above `address`
struct range *range_at(uint64_t address);               // NULL: none
bool insert_range(size_t position, struct range range); // as a new one that is untouched; false: no memory
void more_is_untouched(void);                           // memory_state is another number from now on
void remove_range(struct range *range);
void remove_ranges_in(uint64_t base, uint64_t bytes);
bool take_range(struct range *range, void *taken); // to the list `taken`, if it is untouched. Gives false
bool is_untouched(struct range *range, void *unused);
bool copy_found(const struct range *range, struct range *found); // if there is one
bool passes_filter(const struct range *range, enum list_filter filter, uint64_t value, uint64_t bytes);

// blocks.c
struct range *segment_at(uint64_t address); // NULL: none
void remove_segment(struct range *segment);
void remove_segments(enum list_filter filter, uint64_t value, uint64_t bytes);
