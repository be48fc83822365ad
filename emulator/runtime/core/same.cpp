// The fields of the structures in same.hpp, compared while compiling against each version's headers.
#include "same.hpp"

#include <cstddef>

using emulator::runtime::Same;

#define FIELD(type, field, driver_field)                                                                     \
  static_assert(offsetof(type, field) == offsetof(Same<type>::Type, driver_field) &&                         \
                sizeof(decltype(type::field)) == sizeof(decltype(Same<type>::Type::driver_field)))

FIELD(cudaMemLocation, type, type);
FIELD(cudaMemLocation, id, id);
FIELD(cudaMemPoolProps, allocType, allocType);
FIELD(cudaMemPoolProps, handleTypes, handleTypes);
FIELD(cudaMemPoolProps, location, location);
FIELD(cudaMemPoolProps, maxSize, maxSize);
FIELD(cudaMemPoolProps, usage, usage);
FIELD(cudaMemAccessDesc, location, location);
FIELD(cudaMemAccessDesc, flags, flags);
FIELD(cudaMemsetParams, dst, dst);
FIELD(cudaMemsetParams, pitch, pitch);
FIELD(cudaMemsetParams, value, value);
FIELD(cudaMemsetParams, elementSize, elementSize);
FIELD(cudaMemsetParams, width, width);
FIELD(cudaMemsetParams, height, height);
FIELD(cudaHostNodeParams, fn, fn);
FIELD(cudaHostNodeParams, userData, userData);
FIELD(cudaMemAllocNodeParams, poolProps, poolProps);
FIELD(cudaMemAllocNodeParams, accessDescs, accessDescs);
FIELD(cudaMemAllocNodeParams, accessDescCount, accessDescCount);
FIELD(cudaMemAllocNodeParams, bytesize, bytesize);
FIELD(cudaMemAllocNodeParams, dptr, dptr);
FIELD(cudaGraphEdgeData, from_port, from_port);
FIELD(cudaGraphEdgeData, to_port, to_port);
FIELD(cudaGraphEdgeData, type, type);
FIELD(cudaGraphInstantiateParams, flags, flags);
FIELD(cudaGraphInstantiateParams, uploadStream, hUploadStream);
FIELD(cudaGraphInstantiateParams, errNode_out, hErrNode_out);
FIELD(cudaGraphInstantiateParams, result_out, result_out);
FIELD(cudaGraphExecUpdateResultInfo, result, result);
FIELD(cudaGraphExecUpdateResultInfo, errorNode, errorNode);
FIELD(cudaGraphExecUpdateResultInfo, errorFromNode, errorFromNode);
FIELD(cudaLaunchAttribute, id, id);
FIELD(cudaLaunchAttribute, val, value);
FIELD(cudaLaunchAttributeValue, clusterDim, clusterDim);
FIELD(cudaLaunchAttributeValue, cooperative, cooperative);
FIELD(cudaLaunchAttributeValue, accessPolicyWindow, accessPolicyWindow);
FIELD(cudaLaunchAttributeValue, programmaticEvent, programmaticEvent);
FIELD(cudaLaunchAttributeValue, priority, priority);
FIELD(cudaMemcpyAttributes, srcAccessOrder, srcAccessOrder);
FIELD(cudaMemcpyAttributes, srcLocHint, srcLocHint);
FIELD(cudaMemcpyAttributes, dstLocHint, dstLocHint);
FIELD(cudaMemcpyAttributes, flags, flags);
FIELD(cudaMemcpy3DBatchOp, src, src);
FIELD(cudaMemcpy3DBatchOp, dst, dst);
FIELD(cudaMemcpy3DBatchOp, extent, extent);
FIELD(cudaMemcpy3DBatchOp, srcAccessOrder, srcAccessOrder);
FIELD(cudaMemcpy3DBatchOp, flags, flags);
FIELD(cudaArraySparseProperties, tileExtent, tileExtent);
FIELD(cudaArraySparseProperties, miptailFirstLevel, miptailFirstLevel);
FIELD(cudaArraySparseProperties, miptailSize, miptailSize);
FIELD(cudaArraySparseProperties, flags, flags);
FIELD(cudaArrayMemoryRequirements, size, size);
FIELD(cudaArrayMemoryRequirements, alignment, alignment);

// Numbers that are passed on as they are.
#define VALUE(value, driver_value) static_assert(int{value} == int{driver_value})

VALUE(cudaLaunchAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
VALUE(cudaLaunchAttributeCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
VALUE(cudaLaunchAttributePriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
VALUE(cudaGraphNodeTypeConditional, CU_GRAPH_NODE_TYPE_CONDITIONAL);
VALUE(cudaGraphNodeTypeMemFree, CU_GRAPH_NODE_TYPE_MEM_FREE);
VALUE(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
VALUE(cudaStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
VALUE(cudaMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE);
VALUE(cudaMemLocationTypeHost, CU_MEM_LOCATION_TYPE_HOST);
VALUE(cudaMemPoolAttrReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
VALUE(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
VALUE(cudaMemAdviseSetAccessedBy, CU_MEM_ADVISE_SET_ACCESSED_BY);
VALUE(cudaMemRangeAttributeLastPrefetchLocation, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION);
VALUE(cudaLimitMaxL2FetchGranularity, CU_LIMIT_MAX_L2_FETCH_GRANULARITY);
VALUE(cudaDevAttrMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
VALUE(cudaDevAttrClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
VALUE(cudaDevP2PAttrNativeAtomicSupported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
VALUE(cudaFuncAttributeMaxDynamicSharedMemorySize, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
VALUE(cudaFuncAttributeClusterSchedulingPolicyPreference,
      CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
VALUE(cudaFuncCachePreferEqual, CU_FUNC_CACHE_PREFER_EQUAL);
VALUE(cudaJitMaxRegisters, CU_JIT_MAX_REGISTERS);
VALUE(cudaJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
VALUE(cudaJitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
VALUE(cudaJitLogVerbose, CU_JIT_LOG_VERBOSE);
VALUE(cudaJitGenerateLineInfo, CU_JIT_GENERATE_LINE_INFO);
VALUE(cudaLibraryBinaryIsPreserved, CU_LIBRARY_BINARY_IS_PRESERVED);
VALUE(cudaEnablePerThreadDefaultStream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
VALUE(cudaDriverEntryPointVersionNotSufficent, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
VALUE(cudaHostAllocMapped, CU_MEMHOSTALLOC_DEVICEMAP);
VALUE(cudaHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
VALUE(cudaHostAllocWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED);
VALUE(cudaHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);
VALUE(cudaMemAttachGlobal, CU_MEM_ATTACH_GLOBAL);
VALUE(cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING);
VALUE(cudaEventDisableTiming, CU_EVENT_DISABLE_TIMING);
VALUE(cudaArrayLayered, CUDA_ARRAY3D_LAYERED);
VALUE(cudaArraySurfaceLoadStore, CUDA_ARRAY3D_SURFACE_LDST);
VALUE(cudaArrayCubemap, CUDA_ARRAY3D_CUBEMAP);
VALUE(cudaArrayTextureGather, CUDA_ARRAY3D_TEXTURE_GATHER);
