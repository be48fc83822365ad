#include "geometry.hpp"

#include "core/current.hpp"
#include "core/same.hpp"

#include <climits>

namespace emulator::runtime {

Result launch_error(CUresult result, dim3 grid, dim3 block) {
  if (result != CUDA_ERROR_INVALID_VALUE)
    return result;
  CUdevice device = current_device();
  auto fits = [device](unsigned extent, CUdevice_attribute limit) {
    return extent > 0 && extent <= static_cast<unsigned>(device_attribute(limit, device));
  };
  bool possible = fits(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
                  fits(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
                  fits(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) &&
                  fits(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
                  fits(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) &&
                  fits(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) &&
                  fits(block.x * block.y * block.z, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (!possible)
    return cudaErrorInvalidConfiguration;
  return result;
}

CUlaunchConfig launch_config_of(const cudaLaunchConfig_t *config) {
  require(config != nullptr && config->dynamicSmemBytes <= UINT_MAX, cudaErrorInvalidValue);
  CUlaunchConfig result{};
  result.gridDimX = config->gridDim.x;
  result.gridDimY = config->gridDim.y;
  result.gridDimZ = config->gridDim.z;
  result.blockDimX = config->blockDim.x;
  result.blockDimY = config->blockDim.y;
  result.blockDimZ = config->blockDim.z;
  result.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  result.hStream = config->stream;
  result.attrs = same(config->attrs);
  result.numAttrs = config->numAttrs;
  return result;
}

} // namespace emulator::runtime
