// Host functions and callbacks in streams.
#include "host_functions.hpp"

#include "entry/entry.hpp"
#include "recorder.hpp"

using namespace emulator::driver;

HostOperation::HostOperation(CUhostFn called, void *with) : function(called), data(with) {
  require(function != nullptr, CUDA_ERROR_INVALID_VALUE);
}

Works HostOperation::works() const {
  Works works = one_work([call = function, with = data]() -> Outcome {
    call(with);
    return {};
  });
  works.front()->on_host_thread = true;
  return works;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  return enter("cuLaunchHostFunc", Needs::healthy, hStream, [&](Call &call) {
    auto operation = std::make_shared<HostOperation>(fn, userData);
    submit(call.lock, stream_of(*call.context, hStream), operation);
  });
}

// Unlike a host function, a callback is called after an error, too, and told of it: "each callback will be
// executed exactly once", and "in the event of a device error, all subsequently executed callbacks will
// receive an appropriate CUresult". It cannot be recorded: `issue` refuses.
CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                     unsigned int flags) {
  return enter("cuStreamAddCallback", Needs::healthy, hStream, [&](Call &call) {
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
