// The named exceptions to the generic path.
#pragma once

#include "record/call.h"

void custom_enter(struct call *call);
void custom_leave(struct call *call, int result);
