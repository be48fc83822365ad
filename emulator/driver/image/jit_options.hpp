// The options of the compiler and the linker, and the buffers of the caller that they report into.
#pragma once

#include "entry/entry.hpp"

#include <chrono>
#include <string>

namespace emulator::driver {

struct JitOptions {
  unsigned count = 0;
  CUjit_option *options = nullptr;
  void **values = nullptr;
};

// CUDA_ERROR_INVALID_VALUE for what the documentation forbids, CUDA_ERROR_NOT_SUPPORTED for what would change
// what a program computes and is not there.
void require_options(const JitOptions &options);

// The number that was given with an option, 0 when it was not.
unsigned value_of(const JitOptions &options, CUjit_option option);

// What is said goes into the caller's buffers when this ends: cut to their sizes, with a NUL, and the number
// of bytes written, without the NUL, back into the option that held the size.
class JitLog {
public:
  explicit JitLog(const JitOptions &options) : JitLog(options, options) {}
  // For calls in a row that report into the same buffers: their sizes as they were at the first one, since
  // each call writes into the options how much it wrote.
  JitLog(const JitOptions &options, const JitOptions &sizes);
  ~JitLog();
  JitLog(const JitLog &) = delete;

  std::string errors, information;

private:
  void write(CUjit_option buffer_option, CUjit_option size_option, unsigned capacity,
             const std::string &text) const;

  JitOptions options_;
  unsigned error_capacity_, information_capacity_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace emulator::driver
