// What a call changes of memory and objects.
#pragma once

#include "record/call.h"

void follow_effects(const struct call *call); // after a successful one
