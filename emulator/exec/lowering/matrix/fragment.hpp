// Which lane holds which element of a matrix: the one place that says so, for mma and wmma.
#pragma once

#include <string_view>

#include "exec/program/matrix.hpp"

namespace emulator {

// False: no type of A or B has this name.
bool find_element(std::string_view name, MatrixElement &element);

// A matrix of `columns` that are contiguous in its registers: blocks of `block_rows` rows, in each tiles of 8
// rows and 4 * elements * tile_registers columns, rows first. `registers` 0: as many as there are tiles.
// Columns of .b1 are words.
Fragment make_fragment(uint32_t rows, uint32_t columns, uint32_t block_rows, uint32_t elements,
                       uint32_t tile_registers, uint32_t registers = 0);

} // namespace emulator
