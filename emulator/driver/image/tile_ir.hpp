// Tile IR, the bytecode of CUDA Tile programs. No kernel of it runs here: what is read are the names and
// parameters of its entries, so that a program can load it and capture can see its launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator::driver {

bool is_tile_ir(const uint8_t *image, size_t bytes);

// PTX that declares the entries, each with an instruction that nobody has, so that a launch is refused.
// Throws CUDA_ERROR_INVALID_IMAGE, with `log` saying why.
std::string ptx_of_tile_ir(const uint8_t *image, size_t bytes, int sm, std::string &log);

} // namespace emulator::driver
