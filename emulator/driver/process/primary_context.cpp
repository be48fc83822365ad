// The context of each device that all who ask for it share.
#include "destroy.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"

using namespace emulator::driver;

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  return enter("cuDevicePrimaryCtxRetain", Needs::initialised, [&](Call &) {
    require(pctx != nullptr, CUDA_ERROR_INVALID_VALUE);
    Device &device = device_of(dev);
    auto context = primary_context(device);
    ++device.primary_retains;
    *pctx = handle_of<CUcontext>(context.get());
  });
}

static CUresult release_primary(const char *function, CUdevice dev) {
  return enter(function, Needs::initialised, [&](Call &call) {
    Device &device = device_of(dev);
    require(device.primary_retains > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--device.primary_retains == 0)
      destroy_context(call.lock, *device.primary);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  return release_primary("cuDevicePrimaryCtxRelease", dev);
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return release_primary("cuDevicePrimaryCtxRelease_v2", dev);
}

static CUresult reset_primary(const char *function, CUdevice dev) {
  return enter(function, Needs::initialised, [&](Call &call) {
    Device &device = device_of(dev);
    if (!device.primary || !device.primary->alive)
      return;
    destroy_context(call.lock, *device.primary);
    // "Explicitly destroys and cleans up all resources": a later use of the same handle finds it fresh.
    if (device.primary_retains > 0)
      primary_context(device);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev) {
  return reset_primary("cuDevicePrimaryCtxReset", dev);
}
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return reset_primary("cuDevicePrimaryCtxReset_v2", dev);
}

static CUresult set_primary_flags(const char *function, CUdevice dev, unsigned flags) {
  return enter(function, Needs::initialised, [&](Call &) {
    Device &device = device_of(dev);
    require_context_flags(flags);
    device.primary_flags = flags;
    if (device.primary)
      device.primary->flags = flags;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return set_primary_flags("cuDevicePrimaryCtxSetFlags", dev, flags);
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  return set_primary_flags("cuDevicePrimaryCtxSetFlags_v2", dev, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  return enter("cuDevicePrimaryCtxGetState", Needs::initialised, [&](Call &) {
    Device &device = device_of(dev);
    require(flags != nullptr && active != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = device.primary_flags;
    *active = device.primary && device.primary->alive;
  });
}
