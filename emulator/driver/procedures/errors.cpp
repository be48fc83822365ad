#include "core/driver.hpp"

#include <set>
#include <string>

using namespace emulator::driver;

namespace {

struct ErrorText {
  int number;
  const char *name;
  const char *text;
};

constexpr ErrorText error_texts[] = {
#define ERROR(number, name, text) {number, name, text},
#include "errors.inc"
#undef ERROR
};

// As documented: an unknown error gives null and CUDA_ERROR_INVALID_VALUE.
CUresult look_up(CUresult error, const char **out, const char *ErrorText::*member) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  for (const auto &row : error_texts)
    if (row.number == static_cast<int>(error))
      *out = row.*member;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

int emulator::driver::not_implemented(const char *function) {
  static std::mutex *mutex = new std::mutex;
  static auto *named = new std::set<std::string>;
  try {
    std::lock_guard<std::mutex> guard(*mutex);
    if (named->insert(function).second)
      tell(std::string(function) + " is not implemented");
  } catch (const std::bad_alloc &) {
    // The answer is the same without the words.
  }
  return enter(function, Needs::nothing, [](Call &) { fail(CUDA_ERROR_NOT_SUPPORTED); });
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr) {
  return look_up(error, pStr, &ErrorText::name);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr) {
  return look_up(error, pStr, &ErrorText::text);
}
