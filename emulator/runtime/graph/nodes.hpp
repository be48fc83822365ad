// Parameters of graph nodes as the driver takes them. They point into the runtime's own and live no longer.
#pragma once

#include "core/headers.hpp"

namespace emulator::runtime {

CUDA_KERNEL_NODE_PARAMS kernel_node(const cudaKernelNodeParams *parameters);
cudaKernelNodeParams kernel_node(const CUDA_KERNEL_NODE_PARAMS &parameters);

// A copy in one dimension, and the places of variables in it.
CUDA_MEMCPY3D copy_node(void *dst, const void *src, size_t count, cudaMemcpyKind kind);
CUDA_MEMCPY3D copy_to_symbol_node(const void *symbol, const void *src, size_t count, size_t offset,
                                  cudaMemcpyKind kind);
CUDA_MEMCPY3D copy_from_symbol_node(void *dst, const void *symbol, size_t count, size_t offset,
                                    cudaMemcpyKind kind);

// The tagged union of cudaGraphAddNode. Throws cudaErrorNotSupported for kinds of node that the driver lacks.
CUgraphNodeParams any_node(const cudaGraphNodeParams *parameters);
// What adding a node writes back: the address of an allocation, the bodies of a conditional node.
void write_back(const CUgraphNodeParams &from, cudaGraphNodeParams *to);

// The context that copies and fills of a graph run in.
CUcontext current_context();

} // namespace emulator::runtime
