// Kernels that kernels launch: what the device runtime's functions do. The grids begin when the one that
// launched them has ended, in the order of the launches; each has ended, with all that it launched, before
// the next begins.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator {

// cudaGetParameterBufferV2: an address for the parameters, or 0 where the launch is not possible.
uint64_t parameter_buffer(Warp &w, uint32_t lane, uint64_t function, const Dim3 &grid, const Dim3 &block,
                          uint32_t shared_bytes);
// cudaLaunchDeviceV2: with the parameters that are in the buffer now. A cudaError_t.
uint32_t launch_from_device(Warp &w, const Instruction *i, uint32_t lane, uint64_t buffer, uint64_t stream);
// cudaGetLastError, and cudaPeekAtLastError where nothing is taken away.
uint32_t last_device_error(Warp &w, uint32_t lane, bool takes);

} // namespace emulator
