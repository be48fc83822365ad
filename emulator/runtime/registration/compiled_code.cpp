// The functions that nvcc's start-up and launch code calls. Their signatures are those which the headers
// beside the compiler declare (crt/host_runtime.h, crt/device_functions.h).
#include "core/entry.hpp"
#include "registry.hpp"

using namespace emulator::runtime;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// One <<<...>>> is pushed and popped at each launch; the arguments of a kernel may launch another in between.
// No destructor: programs launch kernels while their own thread-local and global objects end.
constexpr unsigned most_configurations = 64;
thread_local CallConfiguration configurations[most_configurations];
thread_local unsigned configuration_count = 0;

FatBinary *binary_of(void **handle) { return reinterpret_cast<FatBinary *>(handle); }

} // namespace

RUNTIME_EXPORT void **CUDARTAPI __cudaRegisterFatBinary(void *fatCubin) {
  return reinterpret_cast<void **>(register_fat_binary(fatCubin));
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterFatBinaryEnd(void **) {} // nothing is loaded before its first use

RUNTIME_EXPORT void CUDARTAPI __cudaUnregisterFatBinary(void **fatCubinHandle) {
  unregister(binary_of(fatCubinHandle));
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *,
                                                     const char *deviceName, int, uint3 *, uint3 *, dim3 *,
                                                     dim3 *, int *) {
  register_kernel(binary_of(fatCubinHandle), hostFun, deviceName);
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *,
                                                const char *deviceName, int, size_t size, int, int) {
  register_variable(binary_of(fatCubinHandle), hostVar, deviceName, size, nullptr);
}

RUNTIME_EXPORT void CUDARTAPI __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
                                                       char *, const char *deviceName, int, size_t size, int,
                                                       int) {
  register_variable(binary_of(fatCubinHandle), hostVarPtrAddress, deviceName, size, hostVarPtrAddress);
}

// A host variable that device code reaches by name (`static __host__` variables under heterogeneous memory
// management): no device here shares the host's symbols, so nothing is remembered and such a kernel fails to
// load.
RUNTIME_EXPORT void CUDARTAPI __cudaRegisterHostVar(void **, const char *, char *, size_t) {}

// Called by host code before it touches a managed variable. Its answer says that there is no need to ask
// again.
RUNTIME_EXPORT char CUDARTAPI __cudaInitModule(void **fatCubinHandle) {
  return enter(Needs::context, [&] { place_managed_variables(*binary_of(fatCubinHandle)); }) == cudaSuccess;
}

RUNTIME_EXPORT unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                                              cudaStream_t stream) {
  if (configuration_count == most_configurations)
    return 1; // compiled code then does not launch
  configurations[configuration_count++] = {gridDim, blockDim, sharedMem, stream};
  return 0;
}

// Compiled code asks once for each kernel and keeps the answer for ever. The handle is the host address
// itself, so the kernel is loaded at its first launch, in whatever state the device is then, and that launch
// has the error if any.
RUNTIME_EXPORT cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
  return enter(Needs::nothing,
               [&] { *kernelPtr = static_cast<cudaKernel_t>(const_cast<void *>(entryFuncAddr)); });
}

RUNTIME_EXPORT cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim,
                                                                size_t *sharedMem, void *stream) {
  return enter(Needs::nothing, [&] {
    require(configuration_count > 0, cudaErrorMissingConfiguration);
    const CallConfiguration &top = configurations[--configuration_count];
    *gridDim = top.grid;
    *blockDim = top.block;
    *sharedMem = top.shared_bytes;
    *static_cast<cudaStream_t *>(stream) = top.stream;
  });
}
