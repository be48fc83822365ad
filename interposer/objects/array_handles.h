// Calls that make, bind and end arrays and what reaches them.
#pragma once

#include "record/call.h"

void follow_arrays(const struct call *call); // after a successful one
