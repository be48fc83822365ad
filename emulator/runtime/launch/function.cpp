// What is known of a kernel and what can be set.
#include "core/entry.hpp"
#include "core/same.hpp"
#include "geometry.hpp"
#include "registration/registry.hpp"

using namespace emulator::runtime;

namespace {

// The runtime's settable attributes have the driver's numbers.
CUfunction_attribute attribute_of(cudaFuncAttribute attribute) {
  require(attribute >= cudaFuncAttributeMaxDynamicSharedMemorySize && attribute < cudaFuncAttributeMax,
          cudaErrorInvalidValue);
  return static_cast<CUfunction_attribute>(attribute);
}

CUfunction function_of(const void *function) { return reinterpret_cast<CUfunction>(kernel_of(function)); }

} // namespace

#if CUDART_VERSION >= 13000
// Of headers newer than 13.0. The driver has no end of the list but an error.
RUNTIME_EXPORT cudaError_t CUDARTAPI cudaFuncGetParamCount(const void *func, size_t *paramCount) {
  return enter(Needs::context, [&] {
    require(paramCount != nullptr, cudaErrorInvalidValue);
    CUkernel kernel = kernel_of(func);
    size_t count = 0, offset = 0;
    CUresult result = CUDA_SUCCESS;
    while ((result = driver.call_cuKernelGetParamInfo(kernel, count, &offset, nullptr)) == CUDA_SUCCESS)
      ++count;
    require(result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result);
    *paramCount = count;
  });
}
#endif

cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes *attr, const void *func) {
  return enter(Needs::context, [&] {
    require(attr != nullptr, cudaErrorInvalidValue);
    CUkernel kernel = kernel_of(func);
    CUdevice device = current_device();
    auto get = [&](CUfunction_attribute attribute) {
      int value = 0;
      require(driver.call_cuKernelGetAttribute(&value, attribute, kernel, device));
      return value;
    };
    auto get_size = [&](CUfunction_attribute attribute) { return static_cast<size_t>(get(attribute)); };
    cudaFuncAttributes result{};
    result.sharedSizeBytes = get_size(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    result.constSizeBytes = get_size(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    result.localSizeBytes = get_size(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    result.maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    result.numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
    result.ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
    result.binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    result.cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
    result.maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    result.preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    result.clusterDimMustBeSet = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
    result.requiredClusterWidth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    result.requiredClusterHeight = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
    result.requiredClusterDepth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
    result.clusterSchedulingPolicyPreference = get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    result.nonPortableClusterSizeAllowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    *attr = result;
  });
}

// clang-format off
FORWARD(cudaFuncSetAttribute, (const void *func, cudaFuncAttribute attr, int value),
        cuKernelSetAttribute, (attribute_of(attr), value, kernel_of(func), current_device()))
FORWARD(cudaKernelSetAttributeForDevice, (cudaKernel_t kernel, cudaFuncAttribute attr, int value, int device),
        cuKernelSetAttribute, (attribute_of(attr), value, kernel_of(kernel), device_of(device)))
FORWARD(cudaFuncSetCacheConfig, (const void *func, cudaFuncCache cacheConfig),
        cuKernelSetCacheConfig, (kernel_of(func), static_cast<CUfunc_cache>(cacheConfig), current_device()))
FORWARD(cudaFuncSetSharedMemConfig, (const void *func, cudaSharedMemConfig config),
        cuFuncSetSharedMemConfig, (function_of(func), static_cast<CUsharedconfig>(config)))
FORWARD(cudaFuncGetName, (const char **name, const void *func), cuKernelGetName, (name, kernel_of(func)))
FORWARD(cudaFuncGetParamInfo, (const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
        cuKernelGetParamInfo, (kernel_of(func), paramIndex, paramOffset, paramSize))

FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
        (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize),
        cuOccupancyMaxActiveBlocksPerMultiprocessor, (numBlocks, function_of(func), blockSize, dynamicSMemSize))
FORWARD(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags),
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (numBlocks, function_of(func), blockSize, dynamicSMemSize, flags))
FORWARD(cudaOccupancyAvailableDynamicSMemPerBlock,
        (size_t *dynamicSmemSize, const void *func, int numBlocks, int blockSize),
        cuOccupancyAvailableDynamicSMemPerBlock, (dynamicSmemSize, function_of(func), numBlocks, blockSize))
// clang-format on

cudaError_t CUDARTAPI cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
                                                           const cudaLaunchConfig_t *launchConfig) {
  return enter(Needs::context, [&] {
    CUlaunchConfig config = launch_config_of(launchConfig);
    return driver.call_cuOccupancyMaxPotentialClusterSize(clusterSize, function_of(func), &config);
  });
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
                                                     const cudaLaunchConfig_t *launchConfig) {
  return enter(Needs::context, [&] {
    CUlaunchConfig config = launch_config_of(launchConfig);
    return driver.call_cuOccupancyMaxActiveClusters(numClusters, function_of(func), &config);
  });
}
