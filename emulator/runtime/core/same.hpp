// Types that both APIs declare with the same fields under two names, seen as the driver's.
#pragma once

#include "headers.hpp"

namespace emulator::runtime {

// One row for each pair; its size is compared here, its fields by the tests that compile against both
// headers.
template <typename Runtime> struct Same;
#define SAME(runtime, driver_type)                                                                           \
  static_assert(sizeof(runtime) == sizeof(driver_type) && alignof(runtime) == alignof(driver_type));         \
  template <> struct Same<runtime> {                                                                         \
    using Type = driver_type;                                                                                \
  };
SAME(cudaMemLocation, CUmemLocation)
SAME(cudaMemPoolProps, CUmemPoolProps)
SAME(cudaMemAccessDesc, CUmemAccessDesc)
SAME(cudaMemPoolPtrExportData, CUmemPoolPtrExportData)
SAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS)
SAME(cudaHostNodeParams, CUDA_HOST_NODE_PARAMS)
SAME(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS)
SAME(cudaGraphEdgeData, CUgraphEdgeData)
SAME(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS)
SAME(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo)
SAME(cudaLaunchAttributeValue, CUlaunchAttributeValue)
SAME(cudaLaunchAttribute, CUlaunchAttribute)
SAME(cudaIpcMemHandle_t, CUipcMemHandle)
SAME(cudaIpcEventHandle_t, CUipcEventHandle)
SAME(cudaMemcpyAttributes, CUmemcpyAttributes)
SAME(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP)
SAME(cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES)
SAME(cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS)
SAME(cudaStreamCaptureMode, CUstreamCaptureMode)
SAME(cudaStreamCaptureStatus, CUstreamCaptureStatus)
SAME(cudaGraphNodeType, CUgraphNodeType)
SAME(cudaMemAccessFlags, CUmemAccess_flags)
SAME(cudaMemRangeAttribute, CUmem_range_attribute)
SAME(cudaJitOption, CUjit_option)
SAME(cudaLibraryOption, CUlibraryOption)
SAME(cudaFuncCache, CUfunc_cache)
SAME(cudaSharedMemConfig, CUsharedconfig)
#undef SAME

template <typename Runtime> typename Same<Runtime>::Type *same(Runtime *pointer) {
  return reinterpret_cast<typename Same<Runtime>::Type *>(pointer);
}
template <typename Runtime> const typename Same<Runtime>::Type *same(const Runtime *pointer) {
  return reinterpret_cast<const typename Same<Runtime>::Type *>(pointer);
}

inline CUdeviceptr device_pointer(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUdeviceptr *device_pointer(void **pointer) { return reinterpret_cast<CUdeviceptr *>(pointer); }

// A device number as CUDA 12's functions for managed memory take it, where cudaCpuDeviceId is the host.
inline CUmemLocation location_of(int device) {
  CUmemLocation location{};
  location.type = device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

} // namespace emulator::runtime
