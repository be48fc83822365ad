// Physical memory with several addresses.
#pragma once

#include "record/call.h"

void note_physical(const struct call *call);
uint64_t physical_number(uint64_t handle, bool *on_host); // 0: not known
