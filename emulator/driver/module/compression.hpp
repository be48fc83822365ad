// The two compressions of fat binary entries. Both decode into exactly `output.size()` bytes and read nothing
// outside [input, input + bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator::driver {

// One raw LZ4 block (no frame). False when it is damaged.
bool decode_lz4_block(const uint8_t *input, size_t bytes, std::string &output);

enum class Zstd { done, damaged, unavailable };

// One ZSTD frame, through the system's libzstd.so.1, loaded at the first use.
Zstd decode_zstd_frame(const uint8_t *input, size_t bytes, std::string &output);

} // namespace emulator::driver
