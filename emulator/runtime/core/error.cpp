#include "error.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace emulator::runtime {
namespace {

struct Row {
  int number;
  const char *name;
  const char *meaning;
};

constexpr Row rows[] = {
#define ERROR(number, name, meaning) {number, name, meaning},
#include "errors.inc"
#undef ERROR
};

const Row *find(int number) {
  auto row = std::lower_bound(std::begin(rows), std::end(rows), number,
                              [](const Row &left, int right) { return left.number < right; });
  return row != std::end(rows) && row->number == number ? row : nullptr;
}

// Errors that leave the context unusable: "any further CUDA work will return the same error".
bool is_sticky(cudaError_t error) {
  switch (error) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
    return true;
  default:
    return false;
  }
}

std::atomic<unsigned> resets{0};

thread_local cudaError_t last = cudaSuccess;
thread_local unsigned last_resets = 0;

cudaError_t last_error() {
  if (is_sticky(last) && last_resets != resets.load(std::memory_order_relaxed))
    last = cudaSuccess;
  return last;
}

} // namespace

int answer_not_supported(const char *function, std::atomic<bool> &told);

cudaError_t error_of(CUresult result) {
  return find(static_cast<int>(result)) ? static_cast<cudaError_t>(result) : cudaErrorUnknown;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) {
    last = error;
    last_resets = resets.load(std::memory_order_relaxed);
  }
  return error;
}

void forget_sticky_errors() { ++resets; }

void tell(const char *what) {
  // The driver's own setting for a silent stderr, which is the same library's as far as a user can see.
  const char *quiet = std::getenv("REPLAY_EMULATOR_QUIET");
  if (!quiet || std::strcmp(quiet, "1") != 0)
    std::fprintf(stderr, "replay runtime: %s\n", what);
}

// For unsupported.cpp, which includes no CUDA header.
int answer_not_supported(const char *function, std::atomic<bool> &told) {
  if (!told.exchange(true))
    tell((std::string(function) + " is not supported by this CUDA runtime library").c_str());
  return remember(cudaErrorNotSupported);
}

} // namespace emulator::runtime

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaGetLastError(void) {
  cudaError_t error = last_error();
  // Clearing an error that the context keeps would only hide it until the next call.
  if (!is_sticky(error))
    last = cudaSuccess;
  return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) { return last_error(); }

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const Row *row = find(static_cast<int>(error));
  return row ? row->name : "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const Row *row = find(static_cast<int>(error));
  return row ? row->meaning : "unrecognized error code";
}
