// Errors: one table of the runtime's, the driver's turned into them, and each thread's last one.
#pragma once

#include "headers.hpp"

namespace emulator::runtime {

// The runtime's error for a driver's: the same number where the runtime has it, else cudaErrorUnknown.
cudaError_t error_of(CUresult result);

// What a body returns: success or an error of either API.
struct Result {
  Result(cudaError_t error) : code(error) {}
  Result(CUresult result) : code(error_of(result)) {}
  cudaError_t code;
};

struct Failure {
  cudaError_t code;
};

// Ends the body with this error if it is one.
inline void require(Result result) {
  if (result.code != cudaSuccess)
    throw Failure{result.code};
}

inline void require(bool holds, cudaError_t otherwise) {
  if (!holds)
    throw Failure{otherwise};
}

// Notes an error as this thread's last and returns it.
cudaError_t remember(cudaError_t error);

// After cudaDeviceReset the errors that a context cannot recover from are forgotten too.
void forget_sticky_errors();

// One line on stderr.
void tell(const char *what);

} // namespace emulator::runtime
