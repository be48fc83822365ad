#include "event.hpp"

#include "device/context.hpp"
#include "device/device.hpp"
#include "scheduler.hpp"

using namespace emulator::driver;

namespace {

constexpr unsigned event_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult record(const char *function, CUevent handle, CUstream stream_handle, unsigned flags) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto event = driver().events.get(handle);
    require(flags == CU_EVENT_RECORD_DEFAULT || flags == CU_EVENT_RECORD_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    require(flags == CU_EVENT_RECORD_DEFAULT, CUDA_ERROR_INVALID_VALUE); // external: only while capturing
    auto stream = stream_of(*call.context, stream_handle);
    require(stream->context == event->context, CUDA_ERROR_INVALID_HANDLE);
    event->recorded = issue(call.lock, stream, std::make_shared<Work>());
  });
}

CUresult destroy(const char *function, CUevent handle) {
  return enter(function, Needs::healthy,
               [&](Call &) { driver().events.remove(driver().events.get(handle).get()); });
}

CUresult elapsed(const char *function, float *milliseconds, CUevent start_handle, CUevent end_handle) {
  return enter(function, Needs::healthy, [&](Call &) {
    require(milliseconds != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto start = driver().events.get(start_handle), end = driver().events.get(end_handle);
    require(start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
    require(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    require(start->recorded->done && end->recorded->done, CUDA_ERROR_NOT_READY);
    auto from = static_cast<double>(start->recorded->finish_ns),
         to = static_cast<double>(end->recorded->finish_ns);
    *milliseconds = static_cast<float>((to - from) / 1e6);
  });
}

} // namespace

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags) {
  return enter("cuEventCreate", Needs::healthy, [&](Call &call) {
    require(phEvent != nullptr && (Flags & ~event_flags) == 0, CUDA_ERROR_INVALID_VALUE);
    // Documented: events between processes must not take times.
    require(!(Flags & CU_EVENT_INTERPROCESS) || (Flags & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_VALUE);
    auto event = std::make_shared<Event>();
    event->context = call.context;
    event->flags = Flags;
    *phEvent = driver().events.add(event);
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent) { return destroy("cuEventDestroy", hEvent); }
CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent) { return destroy("cuEventDestroy_v2", hEvent); }

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
  return record("cuEventRecord", hEvent, hStream, 0);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return record("cuEventRecordWithFlags", hEvent, hStream, flags);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
  return enter("cuEventQuery", Needs::healthy, [&](Call &call) {
    auto event = driver().events.get(hEvent);
    bool done = idle(call.lock, event->recorded);
    require(event->context->error == CUDA_SUCCESS, event->context->error);
    require(done, CUDA_ERROR_NOT_READY);
  });
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
  return enter("cuEventSynchronize", Needs::healthy, [&](Call &call) {
    auto event = driver().events.get(hEvent);
    if (event->recorded)
      synchronise(call.lock, event->recorded);
    require(event->context->error == CUDA_SUCCESS, event->context->error);
  });
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed("cuEventElapsedTime", pMilliseconds, hStart, hEnd);
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed("cuEventElapsedTime_v2", pMilliseconds, hStart, hEnd);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return enter("cuStreamWaitEvent", Needs::healthy, [&](Call &call) {
    auto event = driver().events.get(hEvent);
    require(Flags == CU_EVENT_WAIT_DEFAULT, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    if (!event->recorded)
      return; // documented: a wait for an event that was never recorded does nothing
    auto work = std::make_shared<Work>();
    work->after.push_back(event->recorded);
    issue(call.lock, stream, work);
  });
}
