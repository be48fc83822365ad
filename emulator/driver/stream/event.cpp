#include "event.hpp"

#include "entry/entry.hpp"
#include "recorder.hpp"

using namespace emulator::driver;

namespace {

constexpr unsigned event_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// Documented: invalid for a stream that is not captured.
void add_external(Stream &stream, CUgraphNodeType type, CUevent event) {
  Recorder *recorder = recorder_of(stream);
  require(recorder != nullptr, CUDA_ERROR_INVALID_VALUE);
  recorder->add(stream, std::make_shared<EventOperation>(type, event));
}

CUresult record(const char *function, CUevent handle, CUstream stream_handle, unsigned flags) {
  // A stream that is named brings its own context, so none need be current.
  bool named = !is_default_stream(stream_handle);
  return enter(function, named ? Needs::initialised : Needs::healthy, stream_handle, [&](Call &call) {
    auto event = driver().events.get(handle);
    require(flags == CU_EVENT_RECORD_DEFAULT || flags == CU_EVENT_RECORD_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    auto stream = named ? explicit_stream(stream_handle) : stream_of(*call.context, stream_handle);
    require(stream->context->error == CUDA_SUCCESS, stream->context->error);
    require(stream->context == event->context, CUDA_ERROR_INVALID_HANDLE);
    if (flags == CU_EVENT_RECORD_EXTERNAL)
      add_external(*stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, handle);
    else
      record(call.lock, stream, *event);
  });
}

// An event of a recording means nothing that runs.
void require_not_captured(const Event &event) {
  if (!event.recorder)
    return;
  event.recorder->invalidate();
  fail(CUDA_ERROR_CAPTURED_EVENT);
}

CUresult destroy(const char *function, CUevent handle) {
  return enter(function, Needs::healthy,
               [&](Call &) { driver().events.remove(driver().events.get(handle).get()); });
}

CUresult elapsed(const char *function, float *milliseconds, CUevent start_handle, CUevent end_handle) {
  return enter(function, Needs::healthy, [&](Call &) {
    require(milliseconds != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto start = driver().events.get(start_handle), end = driver().events.get(end_handle);
    require(!start->recorder && !end->recorder, CUDA_ERROR_CAPTURED_EVENT);
    require(start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
    require(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    require(start->recorded->done && end->recorded->done, CUDA_ERROR_NOT_READY);
    auto from = static_cast<double>(start->recorded->finish_ns),
         to = static_cast<double>(end->recorded->finish_ns);
    *milliseconds = static_cast<float>((to - from) / 1e6);
  });
}

std::shared_ptr<Context> healthy_context(CUcontext handle) {
  auto context = driver().contexts.get(handle, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  require(context->error == CUDA_SUCCESS, context->error);
  return context;
}

} // namespace

namespace emulator::driver {

// Set before it can run: a thread that waits meanwhile waits for this record.
void record(Lock &lock, const std::shared_ptr<Stream> &stream, Event &event) {
  if (Recorder *recorder = recorder_of(*stream))
    return recorder->record(*stream, event);
  refuse_recorded(*stream);
  auto marker = std::make_shared<Work>();
  enqueue(stream, marker);
  event.set_recorded(marker);
  settle(lock);
}

EventOperation::EventOperation(CUgraphNodeType type, CUevent of)
    : kind(type), handle(of), event(driver().events.get(of, CUDA_ERROR_INVALID_VALUE)) {}

Works EventOperation::works() const {
  auto work = std::make_shared<Work>();
  if (kind == CU_GRAPH_NODE_TYPE_WAIT_EVENT && event->recorded)
    work->after.push_back(event->recorded);
  if (kind == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    event->set_recorded(work);
  return {work};
}

} // namespace emulator::driver

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
    require_not_captured(*event);
    bool done = idle(call.lock, event->recorded);
    require(event->context->error == CUDA_SUCCESS, event->context->error);
    require(done, CUDA_ERROR_NOT_READY);
  });
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
  return enter("cuEventSynchronize", Needs::healthy, [&](Call &call) {
    auto event = driver().events.get(hEvent);
    require_not_captured(*event);
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
  return enter("cuStreamWaitEvent", Needs::healthy, hStream, [&](Call &call) {
    auto event = driver().events.get(hEvent);
    require(Flags == CU_EVENT_WAIT_DEFAULT || Flags == CU_EVENT_WAIT_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    Recorder *recorder = recorder_of(*stream);
    if (Flags == CU_EVENT_WAIT_EXTERNAL)
      return add_external(*stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, hEvent);
    if (event->recorder)
      return event->recorder->wait(stream, *event);
    if (!event->recorded)
      return; // documented: a wait for an event that was never recorded does nothing
    if (recorder) {
      recorder->invalidate();
      fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    auto work = std::make_shared<Work>();
    work->after.push_back(event->recorded);
    issue(call.lock, stream, work);
  });
}

// ---- all of a context

CUresult CUDAAPI cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  return enter("cuCtxRecordEvent", Needs::initialised, [&](Call &call) {
    auto context = healthy_context(hCtx);
    auto event = driver().events.get(hEvent);
    require(event->context == context.get(), CUDA_ERROR_INVALID_HANDLE);
    refuse_waiting(*context);
    // A stream of its own: a marker in any of the program's would wait for work that comes later.
    if (!context->marker_stream)
      context->marker_stream = std::make_shared<Stream>(*context, CU_STREAM_NON_BLOCKING, 0);
    auto marker = std::make_shared<Work>();
    marker->after = newest_works(*context);
    event->set_recorded(marker);
    enqueue(context->marker_stream, marker, false);
    settle(call.lock);
  });
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  return enter("cuCtxWaitEvent", Needs::initialised, [&](Call &) {
    auto context = healthy_context(hCtx);
    auto event = driver().events.get(hEvent);
    if (event->recorder) {
      event->recorder->invalidate();
      fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    refuse_waiting(*context);
    if (event->recorded)
      context->holding.push_back(event->recorded);
  });
}

// ---- between processes: not there, and said so

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event) {
  return enter("cuIpcGetEventHandle", Needs::healthy, [&](Call &) {
    auto found = driver().events.get(event);
    require(pHandle != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(found->flags & CU_EVENT_INTERPROCESS, CUDA_ERROR_INVALID_HANDLE);
    tell("cuIpcGetEventHandle: events are not shared between processes");
    fail(CUDA_ERROR_NOT_SUPPORTED);
  });
}
