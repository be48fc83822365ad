// What a program sees where there is no driver, no device, no code for the device, or no such function. The
// argument says which error the first call must give.
#include "check.h"

#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

__global__ void nothing() {}

static int unsupported() {
  cudaExternalMemory_t memory;
  ERROR_IS(cudaImportExternalMemory(&memory, nullptr), cudaErrorNotSupported);
  ERROR_IS(cudaImportExternalMemory(&memory, nullptr), cudaErrorNotSupported);
  ERROR_IS(cudaGetLastError(), cudaErrorNotSupported);
  return 0;
}

static int forked() {
  int count;
  pid_t child = fork();
  if (child == 0) { // nothing has been initialised: the child is free to begin
    nothing<<<1, 1>>>();
    _exit(cudaDeviceSynchronize() == cudaSuccess ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(cudaFree(nullptr));
  child = fork();
  if (child == 0)
    _exit(cudaGetDeviceCount(&count) == cudaErrorInitializationError ? 0 : 1);
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(cudaFree(nullptr));
  return 0;
}

int main(int, char **argv) {
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
  CHECK(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
  CHECK(std::strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
  CHECK(std::strcmp(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code") == 0);
  if (std::strcmp(argv[1], "unsupported") == 0)
    unsupported();
  else if (std::strcmp(argv[1], "forked") == 0)
    forked();
  else if (std::strcmp(argv[1], "launch") == 0) {
    nothing<<<1, 1>>>();
    std::puts(cudaGetErrorName(cudaGetLastError()));
  } else {
    int count = 0, version = -1;
    cudaError_t error = cudaGetDeviceCount(&count);
    std::puts(cudaGetErrorName(error));
    OK(cudaDriverGetVersion(&version));
    CHECK((version == 0) == (error == cudaErrorInsufficientDriver && std::strcmp(argv[1], "old") != 0));
    ERROR_IS(cudaGetLastError(), error);
    OK(cudaGetLastError());
    void *memory;
    ERROR_IS(cudaMalloc(&memory, 4), error);
  }
  std::puts("ok");
}
