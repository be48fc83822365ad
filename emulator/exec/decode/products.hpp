// Sums of products as one step with what gives their terms right before them (operations/products.cpp).
#pragma once

#include "exec/lowered/lowered.hpp"

namespace emulator {

// `place_of`: of each instruction of the block, its place in Program::code, or SIZE_MAX where it has none.
// `mentions`: how often the function names each value.
void join_products(Program &program, const LoweredFunction &function, const BasicBlock &block,
                   const std::vector<size_t> &place_of, const std::vector<uint32_t> &mentions);

} // namespace emulator
