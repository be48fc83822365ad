// What the descriptions of two- and three-dimensional copies ask for.
#pragma once

#include "copy/copy.hpp"

namespace emulator::driver {

// CUDA_ERROR_INVALID_VALUE for what they must not hold.
ShapedCopy shaped_copy(const CUDA_MEMCPY2D &description);
ShapedCopy shaped_copy(const CUDA_MEMCPY3D &description);
ShapedCopy shaped_copy(const CUDA_MEMCPY3D_PEER &description);

} // namespace emulator::driver
