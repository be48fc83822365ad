// What kernels print waits in a buffer of their context until a call that is documented to flush it (CUDA C++
// Programming Guide, "Formatted Output", "Limitations"): launches and loads, before them; synchronisation,
// blocking copies, unloading and the end of a context, after them. What is never flushed is never seen.
#pragma once

#include "device/driver.hpp"

#include <string>

namespace emulator::driver {

// Called from executor threads. When the buffer (CU_LIMIT_PRINTF_FIFO_SIZE) is full, the oldest output goes.
void hold_print(const Context &context, std::string text, size_t buffer_bytes);

// Called at the beginning and at the end of each driver call.
void flush_prints(const char *function, bool at_begin);

} // namespace emulator::driver
