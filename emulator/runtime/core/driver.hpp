// The driver API as the runtime reaches it: dlopen of libcuda.so.1, then cuGetProcAddress for each function
// at its first use. Nothing is linked, so that a program starts without a driver, and a library preloaded in
// front of the driver sees every call. Public functions alone: no export tables.
#pragma once

#include "headers.hpp"

#include <atomic>

namespace emulator::runtime {

// A function of the driver by its name and the version of its signature; null when the driver has none.
void *find_driver_function(const char *name, int version, DefaultStream stream);

template <typename Pointer> class DriverFunction;

template <typename... Arguments> class DriverFunction<CUresult (*)(Arguments...)> {
public:
  constexpr DriverFunction(const char *name, int version) : name_(name), version_(version) {}

  // A function in which no stream takes part, or whose stream is never 0.
  CUresult operator()(Arguments... arguments) { return call(legacy_, DefaultStream::legacy, arguments...); }

  // The twin that gives stream 0 this meaning.
  auto operator[](DefaultStream stream) {
    return [this, stream](Arguments... arguments) {
      return call(stream == DefaultStream::legacy ? legacy_ : per_thread_, stream, arguments...);
    };
  }

private:
  using Pointer = CUresult (*)(Arguments...);

  CUresult call(std::atomic<Pointer> &slot, DefaultStream stream, Arguments... arguments) {
    Pointer function = slot.load(std::memory_order_acquire);
    if (!function) {
      function = reinterpret_cast<Pointer>(find_driver_function(name_, version_, stream));
      if (!function)
        return static_cast<CUresult>(cudaErrorCallRequiresNewerDriver);
      slot.store(function, std::memory_order_release);
    }
    return function(arguments...);
  }

  const char *name_;
  int version_;
  std::atomic<Pointer> legacy_{nullptr};
  std::atomic<Pointer> per_thread_{nullptr};
};

// The members have the driver's names with `call_` before them, which its header's macros leave alone.
struct Driver {
#define DRIVER(name, version) DriverFunction<PFN_##name##_v##version> call_##name{#name, version};
#include "driver_functions.inc"
#undef DRIVER
};

extern Driver driver;

// Loads and initialises the driver, once a process. Without one: cudaErrorInsufficientDriver, as documented.
cudaError_t start_driver();

// What cuDriverGetVersion says; 0 without a driver.
int driver_version();

} // namespace emulator::runtime
