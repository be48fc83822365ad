// Versions, the driver's functions by name, the profiler's switch.
#include "core/entry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion) {
  return enter(Needs::nothing, [&] {
    require(driverVersion != nullptr, cudaErrorInvalidValue);
    *driverVersion = driver_version(); // documented: 0 without a driver
  });
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion) {
  return enter(Needs::nothing, [&] {
    require(runtimeVersion != nullptr, cudaErrorInvalidValue);
    *runtimeVersion = runtime_version;
  });
}

cudaError_t CUDARTAPI cudaProfilerStart(void) {
  return enter(Needs::context, [&] { return driver.call_cuProfilerStart(); });
}

cudaError_t CUDARTAPI cudaProfilerStop(void) {
  return enter(Needs::context, [&] { return driver.call_cuProfilerStop(); });
}

// Private tables of the vendor's libraries: there are none here.
cudaError_t CUDARTAPI cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *pExportTableId) {
  return enter(Needs::nothing, [&]() -> Result {
    require(ppExportTable != nullptr && pExportTableId != nullptr, cudaErrorInvalidValue);
    *ppExportTable = nullptr;
    return cudaErrorSymbolNotFound;
  });
}

#if CUDART_VERSION < 13000
// For devices without double precision, of which there are none any more: the value stays as it is.
cudaError_t CUDARTAPI cudaSetDoubleForDevice(double *) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaSetDoubleForHost(double *) { return cudaSuccess; }
#endif
