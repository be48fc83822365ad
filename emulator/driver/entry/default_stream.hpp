// What stream 0 means.
#pragma once

namespace emulator::driver {

// The `_ptsz` and `_ptds` twins of a function are the same function with another meaning of stream 0.
// They hold this while they call it.
class PerThreadDefaultStream {
public:
  PerThreadDefaultStream();
  ~PerThreadDefaultStream();
  static bool active();
};

} // namespace emulator::driver
