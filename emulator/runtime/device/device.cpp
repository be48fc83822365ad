// Devices: which there are, which one a thread uses, waiting for one and resetting it.
#include "core/entry.hpp"
#include "registration/registry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count) {
  return enter(Needs::driver, [&] {
    require(count != nullptr, cudaErrorInvalidValue);
    return driver.call_cuDeviceGetCount(count);
  });
}

cudaError_t CUDARTAPI cudaGetDevice(int *device) {
  return enter(Needs::driver, [&] {
    require(device != nullptr, cudaErrorInvalidValue);
    *device = current_device();
  });
}

// Since CUDA 12 this makes the device's context, as documented.
cudaError_t CUDARTAPI cudaSetDevice(int device) {
  return enter(Needs::driver, [&] { choose_device(device_of(device)); });
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  return enter(Needs::driver, [&] {
    CUdevice ordinal = device_of(device);
    require((flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) == 0, cudaErrorInvalidValue);
    if (flags & cudaInitDeviceFlagsAreValid)
      require(driver.call_cuDevicePrimaryCtxSetFlags(ordinal, deviceFlags));
    primary_context(ordinal); // documented: made, but not current
  });
}

cudaError_t CUDARTAPI cudaSetValidDevices(int *device_arr, int len) {
  return enter(Needs::driver, [&] {
    require(len >= 0 && (len == 0 || device_arr != nullptr), cudaErrorInvalidValue);
    set_valid_devices(device_arr, len);
  });
}

// cudaDeviceMapHost is always on and hidden from the driver, whose flag for it is a different one.
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags) {
  return enter(Needs::driver, [&] {
    require((flags & ~static_cast<unsigned>(cudaDeviceMask)) == 0, cudaErrorInvalidValue);
    return driver.call_cuDevicePrimaryCtxSetFlags(current_device(),
                                                  flags & ~static_cast<unsigned>(cudaDeviceMapHost));
  });
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags) {
  return enter(Needs::driver, [&] {
    require(flags != nullptr, cudaErrorInvalidValue);
    int active = 0;
    require(driver.call_cuDevicePrimaryCtxGetState(current_device(), flags, &active));
    *flags |= cudaDeviceMapHost;
  });
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  return enter(Needs::context, [&] { return driver.call_cuCtxSynchronize(); });
}

cudaError_t CUDARTAPI cudaDeviceReset(void) {
  return enter(Needs::driver, [&] {
    reset_primary_context(current_device());
    place_managed_variables_again();
  });
}

cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *pciBusId) {
  return enter(Needs::driver, [&] { return driver.call_cuDeviceGetByPCIBusId(device, pciBusId); });
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *pciBusId, int len, int device) {
  return enter(Needs::driver,
               [&] { return driver.call_cuDeviceGetPCIBusId(pciBusId, len, device_of(device)); });
}

cudaError_t CUDARTAPI cudaDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements,
                                                           const cudaChannelFormatDesc *fmtDesc, int device) {
  return enter(Needs::driver, [&] {
    require(maxWidthInElements != nullptr && fmtDesc != nullptr, cudaErrorInvalidValue);
    int bits = fmtDesc->x + fmtDesc->y + fmtDesc->z + fmtDesc->w;
    require(bits >= 8 && bits <= 128, cudaErrorInvalidChannelDescriptor);
    *maxWidthInElements = static_cast<size_t>(
        device_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, device_of(device)));
  });
}

cudaError_t CUDARTAPI cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                                         cudaFlushGPUDirectRDMAWritesScope scope) {
  return enter(Needs::context, [&] {
    return driver.call_cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                                  static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
  });
}
