#include "current.hpp"

#include "driver.hpp"
#include "error.hpp"

#include <map>
#include <mutex>

namespace emulator::runtime {
namespace {

thread_local int chosen_device = -1;
thread_local int first_valid_device = 0;

struct PrimaryContexts {
  std::mutex mutex;
  std::map<CUdevice, CUcontext> retained;
};

// Never destroyed: handlers of atexit may still call the runtime.
PrimaryContexts &primaries() {
  static auto *only = new PrimaryContexts;
  return *only;
}

CUdevice default_device() { return chosen_device >= 0 ? chosen_device : first_valid_device; }

} // namespace

CUdevice device_of(int ordinal) {
  int count = 0;
  require(driver.call_cuDeviceGetCount(&count));
  require(ordinal >= 0 && ordinal < count, cudaErrorInvalidDevice);
  CUdevice device = 0;
  require(driver.call_cuDeviceGet(&device, ordinal));
  return device;
}

CUcontext primary_context(CUdevice device) {
  std::lock_guard<std::mutex> guard(primaries().mutex);
  CUcontext &context = primaries().retained[device];
  if (!context)
    require(driver.call_cuDevicePrimaryCtxRetain(&context, device));
  return context;
}

void reset_primary_context(CUdevice device) {
  {
    std::lock_guard<std::mutex> guard(primaries().mutex);
    require(driver.call_cuDevicePrimaryCtxReset(device));
  }
  forget_sticky_errors();
}

void use_context() {
  CUcontext context = nullptr;
  require(driver.call_cuCtxGetCurrent(&context));
  if (!context)
    require(driver.call_cuCtxSetCurrent(primary_context(default_device())));
}

CUdevice current_device() {
  CUcontext context = nullptr;
  require(driver.call_cuCtxGetCurrent(&context));
  CUdevice device = default_device();
  if (context)
    require(driver.call_cuCtxGetDevice(&device));
  return device;
}

void choose_device(CUdevice device) {
  require(driver.call_cuCtxSetCurrent(primary_context(device)));
  chosen_device = device;
}

void set_valid_devices(const int *devices, int count) {
  for (int i = 0; i < count; ++i)
    device_of(devices[i]);
  first_valid_device = count > 0 ? devices[0] : 0;
}

int device_attribute(CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  require(driver.call_cuDeviceGetAttribute(&value, attribute, device));
  return value;
}

} // namespace emulator::runtime
