// Making and destroying streams.
#include "core/entry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream) {
  return enter(Needs::context, [&] { return driver.call_cuStreamCreate(pStream, CU_STREAM_DEFAULT); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
  return enter(Needs::context, [&] { return driver.call_cuStreamCreate(pStream, flags); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority) {
  return enter(Needs::context,
               [&] { return driver.call_cuStreamCreateWithPriority(pStream, flags, priority); });
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  return enter(Needs::context, [&] {
    require(stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread,
            cudaErrorInvalidResourceHandle);
    return driver.call_cuStreamDestroy(stream);
  });
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  return enter(Needs::context,
               [&] { return driver.call_cuCtxGetStreamPriorityRange(leastPriority, greatestPriority); });
}

cudaError_t CUDARTAPI cudaCtxResetPersistingL2Cache(void) {
  return enter(Needs::context, [&] { return driver.call_cuCtxResetPersistingL2Cache(); });
}
