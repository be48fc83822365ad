// Host functions and callbacks in streams.
#include "capture.hpp"
#include "device/context.hpp"
#include "graph/operations.hpp"
#include "scheduler.hpp"

using namespace emulator::driver;

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  return enter("cuLaunchHostFunc", Needs::healthy, [&](Call &call) {
    require(fn != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    if (capturing(*stream)) {
      capture(*stream, make_host(fn, userData));
      return;
    }
    auto work = std::make_shared<Work>();
    work->on_host_thread = true;
    work->run = [=]() -> Outcome {
      fn(userData);
      return {};
    };
    issue(call.lock, stream, work);
  });
}

// Unlike a host function, a callback is called after an error, too, and told of it: "each callback will be
// executed exactly once", and "in the event of a device error, all subsequently executed callbacks will
// receive an appropriate CUresult". It is not supported in a capturing stream: `issue` refuses.
CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                     unsigned int flags) {
  return enter("cuStreamAddCallback", Needs::healthy, [&](Call &call) {
    require(callback != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    auto work = std::make_shared<Work>();
    work->on_host_thread = true;
    work->even_after_error = true;
    work->run = [=, context = stream->context]() -> Outcome {
      CUresult error;
      {
        Lock lock(driver().mutex);
        error = context->error;
      }
      callback(hStream, error, userData);
      return {};
    };
    issue(call.lock, stream, work);
  });
}
