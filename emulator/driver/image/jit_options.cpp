#include "jit_options.hpp"
#include "entry/entry.hpp"

#include "core/settings.hpp"

#include <algorithm>
#include <cstring>

namespace emulator::driver {

void require_options(const JitOptions &options) {
  require(options.count == 0 || (options.options && options.values), CUDA_ERROR_INVALID_VALUE);
  constexpr unsigned some_newer_option = 64; // programs may be built with newer headers than this driver
  constexpr uint64_t highest_optimisation_level = 4;
  bool has_target = false, has_threads = false;
  for (unsigned i = 0; i < options.count; ++i) {
    auto option = static_cast<unsigned>(options.options[i]);
    auto value = reinterpret_cast<uintptr_t>(options.values[i]) & 0xffffffff; // what is no pointer is 32 bits
    require(option < some_newer_option, CUDA_ERROR_INVALID_VALUE);
    has_target |= option == CU_JIT_TARGET;
    has_threads |= option == CU_JIT_THREADS_PER_BLOCK;
    if (option == CU_JIT_OPTIMIZATION_LEVEL)
      require(value <= highest_optimisation_level, CUDA_ERROR_INVALID_VALUE);
    if (option == CU_JIT_GLOBAL_SYMBOL_COUNT && value != 0) {
      tell("the JIT option CU_JIT_GLOBAL_SYMBOL_NAMES (device symbols at host addresses) is not supported");
      fail(CUDA_ERROR_NOT_SUPPORTED);
    }
  }
  require(!(has_target && has_threads), CUDA_ERROR_INVALID_VALUE); // documented: cannot be combined
}

unsigned value_of(const JitOptions &options, CUjit_option option) {
  unsigned value = 0;
  for (unsigned i = 0; i < options.count; ++i)
    if (options.options[i] == option)
      value = static_cast<unsigned>(reinterpret_cast<uintptr_t>(options.values[i]));
  return value;
}

JitLog::JitLog(const JitOptions &options, const JitOptions &sizes)
    : options_(options), error_capacity_(value_of(sizes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)),
      information_capacity_(value_of(sizes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)) {}

void JitLog::write(CUjit_option buffer_option, CUjit_option size_option, unsigned capacity,
                   const std::string &text) const {
  char *buffer = nullptr;
  void **size = nullptr;
  for (unsigned i = 0; i < options_.count; ++i) {
    if (options_.options[i] == buffer_option)
      buffer = static_cast<char *>(options_.values[i]);
    if (options_.options[i] == size_option)
      size = &options_.values[i];
  }
  if (!size)
    return;
  size_t written = 0;
  if (buffer && capacity > 0) {
    written = std::min<size_t>(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), written);
    buffer[written] = '\0';
  }
  *size = reinterpret_cast<void *>(written);
}

JitLog::~JitLog() {
  write(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, information_capacity_, information);
  write(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error_capacity_, errors);
  for (unsigned i = 0; i < options_.count; ++i)
    if (options_.options[i] == CU_JIT_WALL_TIME) {
      float spent_ms =
          std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin_).count();
      std::memcpy(&options_.values[i], &spent_ms, sizeof spent_ms);
    }
}

} // namespace emulator::driver
