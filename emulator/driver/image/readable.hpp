// How far memory that somebody else's numbers point to can be read.
#pragma once

#include <cstddef>

namespace emulator::driver {

// How many of the bytes from `from` on can be read, at most `most`.
size_t readable_bytes(const void *from, size_t most);

// The length of a text that ends with a NUL, or most of what can be read of one that has none; `ends` says
// which.
size_t readable_length(const char *text, bool &ends);

} // namespace emulator::driver
