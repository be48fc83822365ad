// How a function of the driver fails: it throws, and entry/entry.hpp makes a result of that.
#pragma once

#include "api.hpp"

namespace emulator::driver {

struct Error {
  CUresult code;
};

[[noreturn]] inline void fail(CUresult code) { throw Error{code}; }

inline void require(bool holds, CUresult code) {
  if (!holds)
    fail(code);
}

} // namespace emulator::driver
