// The driver's messages, kept for cuLogs*: what would be written to stderr, also when it is not.
#pragma once

#include <string>

namespace emulator::driver {

// Keeps the message and hands it to every registered callback, on the calling thread. A callback may not call
// the driver (CUDA_ERROR_NOT_PERMITTED).
void log_error(const std::string &message);

} // namespace emulator::driver
