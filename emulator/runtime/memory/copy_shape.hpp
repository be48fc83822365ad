// Copies described the runtime's way, said the driver's way.
#pragma once

#include "core/error.hpp"

namespace emulator::runtime {

// Throws cudaErrorInvalidMemcpyDirection for a number that is no direction.
void require_direction(cudaMemcpyKind kind);

// One side of a two-dimensional copy: memory at a pitch, or a place in an array.
struct Side {
  const void *pointer = nullptr;
  size_t pitch_bytes = 0;
  cudaArray_const_t array = nullptr;
  size_t x_bytes = 0;
  size_t y = 0;
};

// Throws cudaErrorInvalidPitchValue when a row does not fit into a pitch.
CUDA_MEMCPY2D shape_2d(const Side &destination, const Side &source, size_t width_bytes, size_t height,
                       cudaMemcpyKind kind);

CUDA_MEMCPY3D shape_3d(const cudaMemcpy3DParms *parameters);
CUDA_MEMCPY3D_PEER shape_3d(const cudaMemcpy3DPeerParms *parameters);

// The other way, for graph nodes.
cudaMemcpy3DParms parameters_of(const CUDA_MEMCPY3D &shape);

inline CUdeviceptr address_of(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUarray array_of(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

// Bytes of an array's element: what its coordinates count.
size_t element_bytes(cudaArray_const_t array);

} // namespace emulator::runtime
