// The driver's functions by name. A twin, because the default is the caller's meaning of stream 0.
#include "core/entry.hpp"

using namespace emulator::runtime;

namespace {

Result entry_point(const char *symbol, void **function, int version, unsigned long long flags,
                   cudaDriverEntryPointQueryResult *status) {
  require(symbol != nullptr && function != nullptr, cudaErrorInvalidValue);
  require(flags <= cudaEnablePerThreadDefaultStream, cudaErrorInvalidValue);
  if (flags == cudaEnableDefault && default_stream == DefaultStream::per_thread)
    flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult driver_status = CU_GET_PROC_ADDRESS_SUCCESS;
  Result result = driver.call_cuGetProcAddress(symbol, function, version, flags, &driver_status);
  if (status)
    *status = static_cast<cudaDriverEntryPointQueryResult>(driver_status);
  return result;
}

} // namespace

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                              cudaDriverEntryPointQueryResult *driverStatus) {
  return enter(Needs::driver,
               [&] { return entry_point(symbol, funcPtr, runtime_version, flags, driverStatus); });
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                                       unsigned int cudaVersion, unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult *driverStatus) {
  return enter(Needs::driver, [&] {
    return entry_point(symbol, funcPtr, static_cast<int>(cudaVersion), flags, driverStatus);
  });
}
