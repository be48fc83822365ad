// Limits, caches and peers of the current context.
#include "device/device.hpp"
#include "entry/entry.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace {

constexpr int least_priority = 0;
constexpr int greatest_priority = -5;
constexpr size_t largest_stack_bytes = 512 << 10; // local memory of a thread (technical specifications)

} // namespace

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type) {
  return enter("cuCtxGetExecAffinity", Needs::context, [&](Call &) {
    require(pExecAffinity != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    pExecAffinity->type = type;
    pExecAffinity->param.smCount.val = static_cast<unsigned>(settings().multiprocessors);
  });
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  return enter("cuCtxGetLimit", Needs::context, [&](Call &call) {
    require(pvalue != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto found = call.context->limits.find(limit);
    require(found != call.context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
    *pvalue = found->second;
  });
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  return enter("cuCtxSetLimit", Needs::healthy, [&](Call &call) {
    auto found = call.context->limits.find(limit);
    require(found != call.context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
    // Values are clamped where the hardware has a bound.
    if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY)
      value = std::min<size_t>(value, 128);
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE) // CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
      value = 0;
    if (limit == CU_LIMIT_STACK_SIZE)
      value = std::min<size_t>(value, largest_stack_bytes);
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
      require(value <= call.context->device.total_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    found->second = value;
  });
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  return enter("cuCtxGetCacheConfig", Needs::context, [&](Call &call) {
    require(pconfig != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pconfig = call.context->cache_config;
  });
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  return enter("cuCtxSetCacheConfig", Needs::context, [&](Call &call) {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL,
            CUDA_ERROR_INVALID_VALUE);
    call.context->cache_config = config;
  });
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
  return enter("cuCtxGetSharedMemConfig", Needs::context, [&](Call &) {
    require(pConfig != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  });
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return enter("cuCtxSetSharedMemConfig", Needs::context, [&](Call &) {
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE,
            CUDA_ERROR_INVALID_VALUE); // without effect since Maxwell
  });
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) {
  return enter("cuCtxResetPersistingL2Cache", Needs::context, [&](Call &) {});
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  return enter("cuCtxGetStreamPriorityRange", Needs::context, [&](Call &) {
    if (leastPriority)
      *leastPriority = least_priority;
    if (greatestPriority)
      *greatestPriority = greatest_priority;
  });
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return enter("cuCtxEnablePeerAccess", Needs::healthy, [&](Call &call) {
    require(Flags == 0, CUDA_ERROR_INVALID_VALUE);
    auto peer = live_context(peerContext);
    require(&peer->device != &call.context->device, CUDA_ERROR_INVALID_DEVICE);
    require(call.context->peers.insert(peer->device.ordinal).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext) {
  return enter("cuCtxDisablePeerAccess", Needs::healthy, [&](Call &call) {
    auto peer = live_context(peerContext);
    require(call.context->peers.erase(peer->device.ordinal) == 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  });
}
