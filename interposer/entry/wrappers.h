// The wrappers of the driver's functions, by their slots.
#pragma once

#include "driver/table.h"

extern void *const wrappers[SLOT_COUNT];

// Those of the two functions that are written by hand (resolve.c).
int replay_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
int replay_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);
