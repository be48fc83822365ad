// What tells the blocks of allocations.
#pragma once

#include "record/call.h"

void refresh_hints(void);
void hints_for_launch(const struct call *call);
