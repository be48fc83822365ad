// Calls that go into a stream capture.
#pragma once

#include "record/call.h"

bool goes_into_capture(const struct call *call); // that is under way
uint64_t stream_of_call(const struct call *call);
