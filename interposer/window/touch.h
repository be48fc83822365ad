// What a call touches of memory.
#pragma once

#include "record/call.h"

void prepare_memory(struct call *call); // copies what the call may touch for the first time, or what it ends
