// Events.
#include "core/entry.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event) {
  return enter(Needs::context, [&] { return driver.call_cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  return enter(Needs::context, [&] { return driver.call_cuEventCreate(event, flags); });
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  return enter(Needs::context, [&] { return driver.call_cuEventDestroy(event); });
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  return enter(Needs::context, [&] { return driver.call_cuEventQuery(event); });
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  return enter(Needs::context, [&] { return driver.call_cuEventSynchronize(event); });
}

// The second version of 12.8 differs from the first in resolution alone, which is the driver's.
cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  return enter(Needs::context, [&] { return driver.call_cuEventElapsedTime(ms, start, end); });
}

#if CUDART_VERSION < 13000
cudaError_t CUDARTAPI cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end) {
  return enter(Needs::context, [&] { return driver.call_cuEventElapsedTime(ms, start, end); });
}
#endif
