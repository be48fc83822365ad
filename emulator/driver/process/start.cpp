// cuInit, before which nothing works, and the driver's version.
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "exec/interface/findings.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/described.hpp"
#include "memory/virtual/reservations.hpp"

using namespace emulator::driver;

CUresult CUDAAPI cuInit(unsigned int Flags) {
  if (CUresult scripted = admit("cuInit", Needs::nothing))
    return leave("cuInit", scripted);
  if (Flags != 0)
    return leave("cuInit", CUDA_ERROR_INVALID_VALUE);
  if (!settings().problem.empty()) {
    tell(settings().problem);
    return leave("cuInit", CUDA_ERROR_INVALID_VALUE);
  }
  if (in_forked_child())
    return leave("cuInit", CUDA_ERROR_NOT_INITIALIZED);
  if (driver().devices.empty()) {
    driver().without_device = true;
    return leave("cuInit", CUDA_ERROR_NO_DEVICE);
  }
  if (!driver().initialised) {
    if (!claim_own_range())
      return leave("cuInit", CUDA_ERROR_OUT_OF_MEMORY);
    watch_forks();
    if (settings().checks.bits & emulator::bit_of(emulator::Check::init))
      emulator::global_shadow().turn_on();
    watch_for_leaks();
    driver().initialised = true;
  }
  return leave("cuInit", CUDA_SUCCESS);
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion) {
  return enter("cuDriverGetVersion", Needs::nothing, [&](Call &) {
    require(driverVersion != nullptr, CUDA_ERROR_INVALID_VALUE);
    *driverVersion = static_cast<int>(settings().driver_version);
  });
}
