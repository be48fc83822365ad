// Limits and preferences of the current device's context, and access between devices.
#include "core/entry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return enter(Needs::context, [&] { return driver.call_cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *pValue, cudaLimit limit) {
  return enter(Needs::context,
               [&] { return driver.call_cuCtxGetLimit(pValue, static_cast<CUlimit>(limit)); });
}

cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(cudaFuncCache *pCacheConfig) {
  return enter(Needs::context, [&] {
    return driver.call_cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache *>(pCacheConfig));
  });
}

cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(cudaFuncCache cacheConfig) {
  return enter(Needs::context,
               [&] { return driver.call_cuCtxSetCacheConfig(static_cast<CUfunc_cache>(cacheConfig)); });
}

cudaError_t CUDARTAPI cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *pConfig) {
  return enter(Needs::context, [&] {
    return driver.call_cuCtxGetSharedMemConfig(reinterpret_cast<CUsharedconfig *>(pConfig));
  });
}

cudaError_t CUDARTAPI cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return enter(Needs::context,
               [&] { return driver.call_cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config)); });
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice) {
  return enter(Needs::driver, [&] {
    return driver.call_cuDeviceCanAccessPeer(canAccessPeer, device_of(device), device_of(peerDevice));
  });
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return enter(Needs::context, [&] {
    return driver.call_cuCtxEnablePeerAccess(primary_context(device_of(peerDevice)), flags);
  });
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice) {
  return enter(Needs::context,
               [&] { return driver.call_cuCtxDisablePeerAccess(primary_context(device_of(peerDevice))); });
}

cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attr, int srcDevice,
                                                int dstDevice) {
  return enter(Needs::driver, [&] {
    return driver.call_cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr),
                                               device_of(srcDevice), device_of(dstDevice));
  });
}

#if CUDART_VERSION < 13000
// The names of these before CUDA 4, gone in CUDA 13.
cudaError_t CUDARTAPI cudaThreadExit(void) { return cudaDeviceReset(); }
cudaError_t CUDARTAPI cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
cudaError_t CUDARTAPI cudaThreadSetLimit(cudaLimit limit, size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
cudaError_t CUDARTAPI cudaThreadGetLimit(size_t *pValue, cudaLimit limit) {
  return cudaDeviceGetLimit(pValue, limit);
}
cudaError_t CUDARTAPI cudaThreadGetCacheConfig(cudaFuncCache *pCacheConfig) {
  return cudaDeviceGetCacheConfig(pCacheConfig);
}
cudaError_t CUDARTAPI cudaThreadSetCacheConfig(cudaFuncCache cacheConfig) {
  return cudaDeviceSetCacheConfig(cacheConfig);
}
#endif
