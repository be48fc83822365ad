// LZ4 blocks, what nvcc 12 stores its PTX in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator::driver {

// Decodes one raw LZ4 block (no frame) into exactly `output.size()` bytes and reads nothing outside
// [input, input + bytes). False when it is damaged.
bool decode_lz4_block(const uint8_t *input, size_t bytes, std::string &output);

} // namespace emulator::driver
