// What nvcc's start-up code registers: fat binaries with their kernels and variables, known by host
// addresses.
//
// A fat binary is loaded as a CUlibrary at the first use of anything in it. The driver keeps a library apart
// from contexts and gives each context its own copy of the variables, so kernels run on every device, and
// again after cudaDeviceReset.
#pragma once

#include "core/headers.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace emulator::runtime {

struct Variable;

// One registered fat binary. Its address is the handle that nvcc's code passes around.
struct FatBinary {
  explicit FatBinary(const void *wrapper_address) : wrapper(wrapper_address) {}

  // The library, loaded now if it was not. Throws the error of loading it.
  CUlibrary library();

  const void *const wrapper; // stays mapped until it is unregistered
  std::vector<Variable *> managed;
  std::atomic<bool> managed_placed{false};

private:
  friend void unregister(FatBinary *binary);
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
};

// A __global__ function.
struct Kernel {
  // Throws cudaErrorInvalidDeviceFunction when the fat binary does not hold it.
  CUkernel handle();

  FatBinary *binary;
  const void *host;
  std::string name;

private:
  std::atomic<CUkernel> handle_{nullptr};
};

// A __device__, __constant__ or __managed__ variable.
struct Variable {
  FatBinary *binary;
  const void *host;
  std::string name;
  size_t size_bytes;
  void **managed_pointer; // what host code follows to reach a managed variable; else null
};

// Where a variable lies in the current context.
struct Place {
  CUdeviceptr address;
  size_t size_bytes;
};

FatBinary *register_fat_binary(const void *wrapper);
void register_kernel(FatBinary *binary, const void *host, const char *name);
void register_variable(FatBinary *binary, const void *host, const char *name, size_t size_bytes,
                       void **managed);
void unregister(FatBinary *binary);

// Gives host code the addresses of a fat binary's managed variables.
void place_managed_variables(FatBinary &binary);
// The same for all that had their addresses, once these have gone with a context: compiled code does not ask
// again.
void place_managed_variables_again();

// The kernel of what a program passes as one: the address of a __global__ function, or a cudaKernel_t.
// Throws cudaErrorInvalidDeviceFunction for anything else.
CUkernel kernel_of(const void *function);
// The registered function of a handle that kernel_of gave, else the handle itself.
const void *host_function_of(CUkernel kernel);

// Throws cudaErrorInvalidSymbol for an address that is no registered variable's.
Place place_of_symbol(const void *symbol);

// Handles of cudaLibraryGetKernel and its like, which may be launched as they are.
void note_kernel(CUkernel kernel);

} // namespace emulator::runtime
