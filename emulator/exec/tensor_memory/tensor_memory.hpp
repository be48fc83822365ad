// tcgen05, beside its products (operations/matrix/tensor_product.cpp): tensor memory allocated, loaded,
// stored and copied to. All is done where it is issued, which is one of the moments a GPU may choose; where a
// launch defers asynchronous operations, products, copies and shifts are done when the mbarrier of a later
// commit is waited for.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::tensor_memory {

// Operands are in Program::extra from Instruction::extra on.

// A generic address for the result, columns. immediate: 1 with .cta_group::2. The group waits where too few
// columns are free.
const Instruction *allocate(Warp &w, const Instruction *i);
const Instruction *deallocate(Warp &w, const Instruction *i); // address, columns
const Instruction *relinquish(Warp &w, const Instruction *i);
// mbarrier, mask of blocks or none
const Instruction *commit(Warp &w, const Instruction *i);

// Address, registers, and of a load the reduced value or none; immediate: index into Program::tensor_moves
const Instruction *load(Warp &w, const Instruction *i);
const Instruction *store(Warp &w, const Instruction *i);

// Address, descriptor; immediate: index into Program::tensor_copies
const Instruction *copy(Warp &w, const Instruction *i);
const Instruction *shift(Warp &w, const Instruction *i); // address; immediate: 1 with .cta_group::2

} // namespace emulator::tensor_memory
