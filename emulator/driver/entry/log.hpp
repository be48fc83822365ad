// What the driver says in words. cuLogs* give it back, also where nothing is written to stderr.
#pragma once

#include <string>

namespace emulator::driver {

enum class Kept { in_log, nowhere };

// One line on stderr with the driver's name in front, unless REPLAY_EMULATOR_QUIET is 1. It is also kept for
// cuLogs*, because it says what went wrong; a trace is not. Callbacks of cuLogsRegisterCallback are called
// with it, on the calling thread; they may not call the driver (CUDA_ERROR_NOT_PERMITTED).
void tell(const std::string &line, Kept kept = Kept::in_log);

} // namespace emulator::driver
