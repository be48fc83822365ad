#include "core/api.hpp"

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

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr) {
  return look_up(error, pStr, &ErrorText::name);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr) {
  return look_up(error, pStr, &ErrorText::text);
}
