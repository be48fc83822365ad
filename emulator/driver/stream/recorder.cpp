#include "recorder.hpp"

#include "device/context.hpp"

namespace emulator::driver {
namespace {

// Invalidates the recordings with a stream for which `concerned` holds; true when there was one.
template <typename Predicate> bool invalidate_if(Predicate &&concerned) {
  bool any = false;
  for (const auto &stream : driver().recorded)
    if (concerned(*stream)) {
      stream->recorder->invalidate();
      any = true;
    }
  return any;
}

} // namespace

Recorder *recorder_of(const Stream &stream) {
  Recorder *recorder = stream.recorder.get();
  require(!recorder || !recorder->invalidated(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return recorder;
}

void refuse_recorded(const Stream &stream) {
  if (driver().recorded.empty())
    return;
  if (Recorder *recorder = recorder_of(stream)) {
    recorder->invalidate();
    fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (stream.legacy) {
    bool any = invalidate_if(
        [&](const Stream &other) { return other.context == stream.context && other.blocking(); });
    require(!any, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
}

void refuse_waiting(const Context &context) {
  bool any = invalidate_if([&](const Stream &stream) { return stream.context == &context; });
  require(!any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

std::shared_ptr<Work> submit(Lock &lock, const std::shared_ptr<Stream> &stream, OperationPointer operation) {
  if (Recorder *recorder = recorder_of(*stream)) {
    recorder->add(*stream, std::move(operation));
    return nullptr;
  }
  Works works = operation->works_at_call();
  refuse_recorded(*stream);
  for (const auto &work : works)
    enqueue(stream, work);
  settle(lock);
  return std::move(works.back());
}

} // namespace emulator::driver
