// How every exported function begins and ends: what it needs is there, its body runs, the error is
// remembered.
#pragma once

#include "current.hpp"
#include "driver.hpp"
#include "error.hpp"

#include <new>
#include <type_traits>

namespace emulator::runtime {

// What must hold before the body runs. Each kind includes the ones above it.
enum class Needs {
  nothing,
  driver,  // the driver is loaded and initialised
  context, // a context is current in this thread: its own, or else the primary one of its device
};

// The body returns a Result, or nothing and reports failure through `require`.
template <typename Body> cudaError_t enter(Needs needs, Body &&body) noexcept {
  try {
    if (needs >= Needs::driver)
      require(start_driver());
    if (needs >= Needs::context)
      use_context();
    if constexpr (std::is_void_v<decltype(body())>)
      body();
    else
      require(Result(body()));
    return cudaSuccess;
  } catch (const Failure &failure) {
    return remember(failure.code);
  } catch (const std::bad_alloc &) {
    return remember(cudaErrorMemoryAllocation);
  } catch (...) {
    return remember(cudaErrorUnknown);
  }
}

} // namespace emulator::runtime

// A function that is the driver's under another name. FORWARD_STREAM is for those which have a twin.
#define FORWARD(name, parameters, function, arguments)                                                       \
  cudaError_t CUDARTAPI name parameters {                                                                    \
    return emulator::runtime::enter(emulator::runtime::Needs::context,                                       \
                                    [&] { return emulator::runtime::driver.call_##function arguments; });    \
  }
#define FORWARD_STREAM(name, parameters, function, arguments)                                                \
  cudaError_t CUDARTAPI name parameters {                                                                    \
    return emulator::runtime::enter(emulator::runtime::Needs::context, [&] {                                 \
      return emulator::runtime::driver.call_##function[emulator::runtime::default_stream] arguments;         \
    });                                                                                                      \
  }
