// ZSTD, in which nvcc 13 stores its PTX. The library is the system's and is loaded when it is first needed:
// so the driver is built without its headers, and every Debian, Ubuntu, Fedora and SUSE has it for its
// packages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator::driver {

bool has_zstd();

// Decodes one frame into exactly `output.size()` bytes and reads nothing outside [input, input + bytes).
// Bytes after the frame are ignored: entries of fat binaries are padded. Nullptr when it went well, else
// what is wrong, in words.
const char *decode_zstd_frame(const uint8_t *input, size_t bytes, std::string &output);

} // namespace emulator::driver
