// ZSTD frames (RFC 8878), decoded without a library: what nvcc 13 stores its PTX in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator::driver {

// Decodes one frame into exactly `output.size()` bytes and reads nothing outside [input, input + bytes).
// Bytes behind the frame are ignored: entries of fat binaries are padded. Nullptr when it went well, else
// what is wrong, in words. A frame that needs a dictionary is refused. Takes memory for its tables only
// (under 1 MiB) and time proportional to input and output.
const char *decode_zstd_frame(const uint8_t *input, size_t bytes, std::string &output);

} // namespace emulator::driver
