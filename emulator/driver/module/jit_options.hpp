// The options of the compiler and the linker, and the buffers of the caller that they report into.
#pragma once

#include "core/entry.hpp"

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

// What is said goes into the caller's buffers when this ends: cut to their sizes, with a NUL, and the number
// of bytes written, without the NUL, back into the option that held the size.
class JitLog {
public:
  explicit JitLog(const JitOptions &options) : options_(options) {}
  ~JitLog();
  JitLog(const JitLog &) = delete;

  std::string errors, information;

private:
  void write(CUjit_option buffer_option, CUjit_option size_option, const std::string &text) const;

  JitOptions options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace emulator::driver
