// The end of a context.
#pragma once

#include "entry/entry.hpp"

namespace emulator::driver {

// Waits for the context's work, then frees everything it owns. The object stays, marked dead, for threads
// that still have it on their stack.
void destroy_context(Lock &lock, Context &context);

} // namespace emulator::driver
