// What the names of a matrix instruction say: shape, types, and the fragments that follow from them.
#pragma once

#include "exec/lowering/matrix/fragment.hpp"
#include "exec/lowering/opcode.hpp"

namespace emulator {

enum class MatrixRole : uint8_t { a, b, c };

// The type of a sum; `none` where the name is not one.
ptx::Type sum_type(std::string_view name);

// Takes m16n8k8 out of the opcode. False when there is none, or none of a size that a warp holds.
bool take_shape(Opcode &opcode, MatrixForm &form);
// What .kind says of elements: those of 8, 6 and 4 bits in bytes, or e2m1 side by side.
struct MatrixKinds {
  bool bytes = false, packed = false;
};
// Takes what says how A and B are kept, sparse or scaled by blocks. False when that does not fit together.
bool take_kind(Opcode &opcode, MatrixForm &form, MatrixKinds &kinds);
bool set_elements(MatrixForm &form, const MatrixKinds &kinds, std::string_view a, std::string_view b);
// Whether mma or wmma has elements of this kind in this shape.
bool is_mma_shape(const MatrixForm &form, const MatrixKinds &kinds);
bool is_wmma_shape(const MatrixForm &form);

// `sum`: the type of C and D.
Fragment fragment_of(MatrixRole role, const MatrixForm &form, ptx::Type sum, bool wmma);

} // namespace emulator
