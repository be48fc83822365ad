// The wrappers of the driver's functions, by their slots.
#pragma once

#include "driver/table.h"

extern void *const wrappers[SLOT_COUNT];
