// Kernel launches and host functions.
#include "core/entry.hpp"
#include "launch/geometry.hpp"
#include "registration/registry.hpp"

#include <climits>

using namespace emulator::runtime;

namespace {

Result launch(CUkernel kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
              cudaStream_t stream) {
  require(shared_bytes <= UINT_MAX, cudaErrorInvalidValue);
  // Documented: a CUkernel may stand for the CUfunction of the current context.
  CUresult result = driver.call_cuLaunchKernel[default_stream](
      reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
      static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
  return launch_error(result, grid, block);
}

} // namespace

cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                       size_t sharedMem, cudaStream_t stream) {
  return enter(Needs::context,
               [&] { return launch(kernel_of(func), gridDim, blockDim, args, sharedMem, stream); });
}

// What nvcc 13 and later call for <<<...>>>, with the handle that __cudaGetKernel gave.
RUNTIME_EXPORT cudaError_t CUDARTAPI RUNTIME_TWIN(__cudaLaunchKernel)(cudaKernel_t kernel, dim3 gridDim,
                                                                      dim3 blockDim, void **args,
                                                                      size_t sharedMem, cudaStream_t stream) {
  return enter(Needs::context,
               [&] { return launch(kernel_of(kernel), gridDim, blockDim, args, sharedMem, stream); });
}

cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                                  size_t sharedMem, cudaStream_t stream) {
  return enter(Needs::context, [&]() -> Result {
    require(sharedMem <= UINT_MAX, cudaErrorInvalidValue);
    CUresult result = driver.call_cuLaunchCooperativeKernel[default_stream](
        reinterpret_cast<CUfunction>(kernel_of(func)), gridDim.x, gridDim.y, gridDim.z, blockDim.x,
        blockDim.y, blockDim.z, static_cast<unsigned>(sharedMem), stream, args);
    return launch_error(result, gridDim, blockDim);
  });
}

cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args) {
  return enter(Needs::context, [&]() -> Result {
    CUlaunchConfig driver_config = launch_config_of(config);
    CUresult result = driver.call_cuLaunchKernelEx[default_stream](
        &driver_config, reinterpret_cast<CUfunction>(kernel_of(func)), args, nullptr);
    return launch_error(result, config->gridDim, config->blockDim);
  });
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData) {
  return enter(Needs::context,
               [&] { return driver.call_cuLaunchHostFunc[default_stream](stream, fn, userData); });
}
