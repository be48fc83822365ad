// How every exported function begins and ends.
//
// The body of a function (above Needs::nothing) runs under the driver's one lock and reports failure by
// throwing Error. Work that can last (kernels, copies, host functions) gives the lock up while it runs: see
// stream/scheduler.hpp.
#pragma once

#include "default_stream.hpp"
#include "device/context.hpp"
#include "log.hpp"

#include <new>
#include <utility>

namespace emulator::driver {

// What must hold before the body runs. Each kind includes the ones above it.
enum class Needs {
  nothing,     // answers before cuInit, and in a forked child
  initialised, // cuInit has been called
  context,     // a live context is current
  healthy,     // and no earlier work has left an error in it
};

// What a body is given: the lock that it holds, and the current context (null below Needs::context).
struct Call {
  Lock &lock;
  Context *context;
};

bool is_default_stream(CUstream stream); // whichever of the three names it has
// Scripted failures, fork, callbacks, cuInit. CUDA_SUCCESS when the body may run. stream: the one that is
// named.
CUresult admit(const char *function, Needs needs, CUstream stream = nullptr);
// The current context, or the reason why there is none. Called with the lock held.
// Throws, too, when `function` must not be called now (Driver::refuse_call).
Context *admitted_context(const char *function, Needs needs);
// Notes the result for REPLAY_EMULATOR_TRACE and returns it.
CUresult leave(const char *function, CUresult result);
// From then on a forked child is told that nothing is initialised there.
void watch_forks();
bool in_forked_child();
// What a function that nobody has written answers: CUDA_ERROR_NOT_SUPPORTED, after cuInit; it is named on
// stderr the first time.
int not_implemented(const char *function);

template <typename Body>
CUresult enter(const char *function, Needs needs, CUstream stream, Body &&body) noexcept {
  CUresult result = admit(function, needs, stream);
  if (result == CUDA_SUCCESS) {
    try {
      Lock lock(driver().mutex, std::defer_lock);
      if (needs != Needs::nothing) // a forked child may have inherited a lock that nobody will give up
        lock.lock();
      Call call{lock, admitted_context(function, needs)};
      body(call);
    } catch (const Error &error) {
      result = error.code;
    } catch (const std::bad_alloc &) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    } catch (...) {
      result = CUDA_ERROR_UNKNOWN;
    }
  }
  return leave(function, result);
}

template <typename Body> CUresult enter(const char *function, Needs needs, Body &&body) noexcept {
  return enter(function, needs, nullptr, std::forward<Body>(body));
}

// Held by a thread that runs a host function of a stream: calls of the driver are not permitted there.
class InsideHostFunction {
public:
  InsideHostFunction();
  ~InsideHostFunction();
};

} // namespace emulator::driver
