#include "occupancy.hpp"

#include "core/heap.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "launch.hpp"
#include "module/function.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

// The same for every architecture since Volta (CUDA occupancy calculator).
constexpr uint32_t registers_per_multiprocessor = 65536;
constexpr uint32_t registers_unit = 256; // per warp

} // namespace

uint32_t blocks_per_multiprocessor(const Function &function, const Device &device, uint32_t threads,
                                   uint64_t dynamic_shared_bytes) {
  const Architecture &limits = device.architecture;
  if (threads == 0 || threads > function.info->max_threads_per_block ||
      dynamic_shared_bytes > function.dynamic_shared_limit())
    return 0;
  uint32_t warps = (threads + 31) / 32;
  // The executor's count is a model: it lowers occupancy, but never below the one block that a compiler, told
  // of the block's size, would have made room for.
  uint64_t each = std::max(function.registers(), 1u);
  each = std::min<uint64_t>(each, registers_per_multiprocessor / (warps * 32));
  uint64_t registers =
      std::min<uint64_t>(round_up(each * 32, registers_unit) * warps, registers_per_multiprocessor);
  uint64_t shared = round_up(function.info->static_shared_bytes + dynamic_shared_bytes +
                                 limits.reserved_shared_per_block_bytes,
                             limits.shared_unit_bytes());
  uint64_t blocks = limits.blocks_per_multiprocessor;
  blocks = std::min<uint64_t>(blocks, limits.threads_per_multiprocessor / (warps * 32));
  blocks = std::min<uint64_t>(blocks, registers_per_multiprocessor / registers);
  if (shared > 0)
    blocks = std::min<uint64_t>(blocks, limits.shared_per_multiprocessor_bytes / shared);
  return static_cast<uint32_t>(blocks);
}

} // namespace emulator::driver

using namespace emulator::driver;

namespace {

void require_occupancy_flags(unsigned flags) { require((flags & ~1u) == 0, CUDA_ERROR_INVALID_VALUE); }

CUresult max_active_blocks(const char *name, int *blocks, CUfunction handle, int threads,
                           size_t dynamic_bytes, unsigned flags) {
  return enter(name, Needs::healthy, [&](Call &call) {
    require(blocks != nullptr && threads > 0, CUDA_ERROR_INVALID_VALUE);
    require_occupancy_flags(flags);
    auto function = function_of(*call.context, handle);
    *blocks = static_cast<int>(blocks_per_multiprocessor(*function, call.context->device,
                                                         static_cast<uint32_t>(threads), dynamic_bytes));
  });
}

CUresult potential_block_size(const char *name, int *grid, int *block, CUfunction handle,
                              CUoccupancyB2DSize shared_of, size_t dynamic_bytes, int limit, unsigned flags) {
  return enter(name, Needs::healthy, [&](Call &call) {
    require(grid != nullptr && block != nullptr && limit >= 0, CUDA_ERROR_INVALID_VALUE);
    require_occupancy_flags(flags);
    auto function = function_of(*call.context, handle);
    const Device &device = call.context->device;
    uint32_t largest = function->info->max_threads_per_block;
    if (limit > 0)
      largest = std::min(largest, static_cast<uint32_t>(limit));
    uint32_t best_threads = 0, best_resident = 0, best_blocks = 0;
    // From the largest down, so that of equal occupancies the largest block is taken, as documented.
    for (uint32_t threads = largest; threads > 0; threads = threads % 32 ? threads / 32 * 32 : threads - 32) {
      size_t bytes = shared_of ? shared_of(static_cast<int>(threads)) : dynamic_bytes;
      uint32_t blocks = blocks_per_multiprocessor(*function, device, threads, bytes);
      if (blocks * threads > best_resident) {
        best_resident = blocks * threads;
        best_threads = threads;
        best_blocks = blocks;
      }
    }
    require(best_threads > 0, CUDA_ERROR_INVALID_VALUE);
    *block = static_cast<int>(best_threads);
    *grid = static_cast<int>(best_blocks * settings().multiprocessors);
  });
}

} // namespace

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                             size_t dynamicSMemSize) {
  return max_active_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessor", numBlocks, func, blockSize,
                           dynamicSMemSize, 0);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                                      int blockSize, size_t dynamicSMemSize,
                                                                      unsigned int flags) {
  return max_active_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", numBlocks, func, blockSize,
                           dynamicSMemSize, flags);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                  size_t dynamicSMemSize, int blockSizeLimit) {
  return potential_block_size("cuOccupancyMaxPotentialBlockSize", minGridSize, blockSize, func,
                              blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                           CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                           size_t dynamicSMemSize, int blockSizeLimit,
                                                           unsigned int flags) {
  return potential_block_size("cuOccupancyMaxPotentialBlockSizeWithFlags", minGridSize, blockSize, func,
                              blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, flags);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                         int numBlocks, int blockSize) {
  return enter("cuOccupancyAvailableDynamicSMemPerBlock", Needs::healthy, [&](Call &call) {
    require(dynamicSmemSize != nullptr && numBlocks > 0 && blockSize > 0, CUDA_ERROR_INVALID_VALUE);
    auto function = function_of(*call.context, func);
    const Device &device = call.context->device;
    const Architecture &limits = device.architecture;
    uint64_t unit = limits.shared_unit_bytes();
    uint64_t each = limits.shared_per_multiprocessor_bytes / static_cast<uint64_t>(numBlocks) / unit * unit;
    uint64_t taken = function->info->static_shared_bytes + limits.reserved_shared_per_block_bytes;
    uint64_t available = each > taken ? each - taken : 0;
    available = std::min<uint64_t>(available, function->dynamic_shared_limit());
    auto blocks = blocks_per_multiprocessor(*function, device, static_cast<uint32_t>(blockSize), available);
    require(blocks >= static_cast<uint32_t>(numBlocks), CUDA_ERROR_INVALID_VALUE);
    *dynamicSmemSize = available;
  });
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                              const CUlaunchConfig *config) {
  return enter("cuOccupancyMaxActiveClusters", Needs::healthy, [&](Call &call) {
    require(numClusters != nullptr && config != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto function = function_of(*call.context, func);
    LaunchShape shape = shape_of(*config);
    require_cluster(*function, call.context->device, shape);
    uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
    require(threads <= 1024, CUDA_ERROR_INVALID_VALUE);
    uint64_t blocks = uint64_t{settings().multiprocessors} *
                      blocks_per_multiprocessor(*function, call.context->device,
                                                static_cast<uint32_t>(threads), shape.dynamic_shared_bytes);
    *numClusters = static_cast<int>(blocks / (uint64_t{shape.cluster.x} * shape.cluster.y * shape.cluster.z));
  });
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                                    const CUlaunchConfig *config) {
  return enter("cuOccupancyMaxPotentialClusterSize", Needs::healthy, [&](Call &call) {
    require(clusterSize != nullptr && config != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto function = function_of(*call.context, func);
    require(call.context->device.architecture.sm >= 90, CUDA_ERROR_NOT_SUPPORTED);
    *clusterSize = static_cast<int>(largest_cluster(*function));
  });
}
