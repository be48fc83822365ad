#include "nodes.hpp"

#include "core/current.hpp"
#include "core/driver.hpp"
#include "core/error.hpp"
#include "core/same.hpp"
#include "memory/copy_shape.hpp"
#include "registration/registry.hpp"

#include <cstring>

namespace emulator::runtime {
namespace {

// The two structures of a kernel node have the same fields in all but where they keep the function.
template <typename To, typename From> void fill_kernel(To &to, const From &from) {
  to.gridDimX = from.gridDim.x;
  to.gridDimY = from.gridDim.y;
  to.gridDimZ = from.gridDim.z;
  to.blockDimX = from.blockDim.x;
  to.blockDimY = from.blockDim.y;
  to.blockDimZ = from.blockDim.z;
  to.sharedMemBytes = from.sharedMemBytes;
  to.kernelParams = from.kernelParams;
  to.extra = from.extra;
  to.kern = kernel_of(from.func);
}

void *place_in_symbol(const void *symbol, size_t count, size_t offset) {
  Place place = place_of_symbol(symbol);
  require(offset <= place.size_bytes && count <= place.size_bytes - offset, cudaErrorInvalidValue);
  return reinterpret_cast<void *>(place.address + offset);
}

} // namespace

CUcontext current_context() {
  CUcontext context = nullptr;
  require(driver.call_cuCtxGetCurrent(&context));
  return context;
}

CUDA_KERNEL_NODE_PARAMS kernel_node(const cudaKernelNodeParams *parameters) {
  require(parameters != nullptr, cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS result{};
  fill_kernel(result, *parameters);
  return result;
}

cudaKernelNodeParams kernel_node(const CUDA_KERNEL_NODE_PARAMS &parameters) {
  cudaKernelNodeParams result{};
  CUkernel kernel = parameters.kern ? parameters.kern : reinterpret_cast<CUkernel>(parameters.func);
  result.func = const_cast<void *>(host_function_of(kernel));
  result.gridDim = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  result.blockDim = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ};
  result.sharedMemBytes = parameters.sharedMemBytes;
  result.kernelParams = parameters.kernelParams;
  result.extra = parameters.extra;
  return result;
}

CUDA_MEMCPY3D copy_node(void *dst, const void *src, size_t count, cudaMemcpyKind kind) {
  require(dst != nullptr && src != nullptr, cudaErrorInvalidValue);
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = {const_cast<void *>(src), count, count, 1};
  parameters.dstPtr = {dst, count, count, 1};
  parameters.extent = {count, 1, 1};
  parameters.kind = kind;
  return shape_3d(&parameters);
}

CUDA_MEMCPY3D copy_to_symbol_node(const void *symbol, const void *src, size_t count, size_t offset,
                                  cudaMemcpyKind kind) {
  return copy_node(place_in_symbol(symbol, count, offset), src, count, kind);
}

CUDA_MEMCPY3D copy_from_symbol_node(void *dst, const void *symbol, size_t count, size_t offset,
                                    cudaMemcpyKind kind) {
  return copy_node(dst, place_in_symbol(symbol, count, offset), count, kind);
}

CUgraphNodeParams any_node(const cudaGraphNodeParams *parameters) {
  require(parameters != nullptr, cudaErrorInvalidValue);
  CUgraphNodeParams result{};
  result.type = static_cast<CUgraphNodeType>(parameters->type);
  switch (parameters->type) {
  case cudaGraphNodeTypeKernel:
    fill_kernel(result.kernel, parameters->kernel);
    break;
  case cudaGraphNodeTypeMemcpy:
    result.memcpy.flags = parameters->memcpy.flags;
    result.memcpy.copyCtx = current_context();
    result.memcpy.copyParams = shape_3d(&parameters->memcpy.copyParams);
    break;
  case cudaGraphNodeTypeMemset:
    result.memset.dst = device_pointer(parameters->memset.dst);
    result.memset.pitch = parameters->memset.pitch;
    result.memset.value = parameters->memset.value;
    result.memset.elementSize = parameters->memset.elementSize;
    result.memset.width = parameters->memset.width;
    result.memset.height = parameters->memset.height;
    result.memset.ctx = current_context();
    break;
  case cudaGraphNodeTypeHost:
    result.host.fn = parameters->host.fn;
    result.host.userData = parameters->host.userData;
    break;
  case cudaGraphNodeTypeGraph:
    result.graph.graph = parameters->graph.graph;
    result.graph.ownership = static_cast<CUgraphChildGraphNodeOwnership>(parameters->graph.ownership);
    break;
  case cudaGraphNodeTypeEmpty:
    break;
  case cudaGraphNodeTypeWaitEvent:
    result.eventWait.event = parameters->eventWait.event;
    break;
  case cudaGraphNodeTypeEventRecord:
    result.eventRecord.event = parameters->eventRecord.event;
    break;
  case cudaGraphNodeTypeMemAlloc:
    static_assert(sizeof parameters->alloc == sizeof result.alloc);
    std::memcpy(&result.alloc, &parameters->alloc, sizeof result.alloc);
    break;
  case cudaGraphNodeTypeMemFree:
    result.free.dptr = device_pointer(parameters->free.dptr);
    break;
  case cudaGraphNodeTypeConditional:
    result.conditional.handle = parameters->conditional.handle;
    result.conditional.type = static_cast<CUgraphConditionalNodeType>(parameters->conditional.type);
    result.conditional.size = parameters->conditional.size;
    result.conditional.ctx = current_context();
    break;
  default:
    throw Failure{cudaErrorNotSupported};
  }
  return result;
}

void write_back(const CUgraphNodeParams &from, cudaGraphNodeParams *to) {
  if (to->type == cudaGraphNodeTypeMemAlloc)
    to->alloc.dptr = reinterpret_cast<void *>(from.alloc.dptr);
  if (to->type == cudaGraphNodeTypeConditional)
    to->conditional.phGraph_out = from.conditional.phGraph_out;
}

} // namespace emulator::runtime
