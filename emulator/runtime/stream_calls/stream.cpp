// What is asked of and done to streams that are there, and events in them.
#include "core/entry.hpp"

#include <memory>

using namespace emulator::runtime;

namespace {

struct Callback {
  cudaStreamCallback_t function;
  void *user_data;
};

void CUDA_CB call_back(CUstream stream, CUresult status, void *data) {
  std::unique_ptr<Callback> callback(static_cast<Callback *>(data));
  callback->function(stream, error_of(status), callback->user_data);
}

} // namespace

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  return enter(Needs::context, [&] { return driver.call_cuStreamQuery[default_stream](stream); });
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  return enter(Needs::context, [&] { return driver.call_cuStreamSynchronize[default_stream](stream); });
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return enter(Needs::context,
               [&] { return driver.call_cuStreamWaitEvent[default_stream](stream, event, flags); });
}

cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                            void *userData, unsigned int flags) {
  return enter(Needs::context, [&] {
    require(callback != nullptr, cudaErrorInvalidValue);
    auto held = std::make_unique<Callback>(Callback{callback, userData});
    require(driver.call_cuStreamAddCallback[default_stream](stream, call_back, held.get(), flags));
    [[maybe_unused]] Callback *passed_on = held.release(); // the callback deletes it
  });
}

cudaError_t CUDARTAPI cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
                                               unsigned int flags) {
  return enter(Needs::context, [&] {
    return driver.call_cuStreamAttachMemAsync[default_stream](stream, reinterpret_cast<CUdeviceptr>(devPtr),
                                                              length, flags);
  });
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags) {
  return enter(Needs::context, [&] { return driver.call_cuStreamGetFlags[default_stream](hStream, flags); });
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t hStream, int *priority) {
  return enter(Needs::context,
               [&] { return driver.call_cuStreamGetPriority[default_stream](hStream, priority); });
}

cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId) {
  return enter(Needs::context, [&] { return driver.call_cuStreamGetId[default_stream](hStream, streamId); });
}

cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t hStream, int *device) {
  return enter(Needs::context,
               [&] { return driver.call_cuStreamGetDevice[default_stream](hStream, device); });
}

cudaError_t CUDARTAPI cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src) {
  return enter(Needs::context, [&] { return driver.call_cuStreamCopyAttributes[default_stream](dst, src); });
}

cudaError_t CUDARTAPI cudaStreamGetAttribute(cudaStream_t hStream, cudaStreamAttrID attr,
                                             cudaStreamAttrValue *value_out) {
  return enter(Needs::context, [&] {
    static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue));
    return driver.call_cuStreamGetAttribute[default_stream](hStream, static_cast<CUstreamAttrID>(attr),
                                                            reinterpret_cast<CUstreamAttrValue *>(value_out));
  });
}

cudaError_t CUDARTAPI cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr,
                                             const cudaStreamAttrValue *value) {
  return enter(Needs::context, [&] {
    return driver.call_cuStreamSetAttribute[default_stream](
        hStream, static_cast<CUstreamAttrID>(attr), reinterpret_cast<const CUstreamAttrValue *>(value));
  });
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return enter(Needs::context, [&] { return driver.call_cuEventRecord[default_stream](event, stream); });
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return enter(Needs::context,
               [&] { return driver.call_cuEventRecordWithFlags[default_stream](event, stream, flags); });
}
