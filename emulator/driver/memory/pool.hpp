// Stream-ordered allocation: cuMemAllocAsync and memory pools.
#pragma once

#include "device/driver.hpp"

namespace emulator::driver {

struct MemoryPool {
  Device *device = nullptr; // null for a pool of host memory
  CUmemPoolProps properties{};
  bool is_default = false;
  bool destroyed = false; // by its owner; lives on until its last allocation is freed
  uint64_t release_threshold_bytes = 0;
  int reuse[3] = {1, 1, 1}; // follow event dependencies, opportunistic, internal dependencies
  // Used: by allocations. Reserved: taken from the device, never less. High: since the last reset.
  uint64_t used_bytes = 0, used_high_bytes = 0;
  uint64_t reserved_bytes = 0, reserved_high_bytes = 0;
  // Bit per device ordinal; executor threads read them.
  std::atomic<uint32_t> readable{0}, writable{0};

  // Throws CUDA_ERROR_OUT_OF_MEMORY when neither what is reserved nor the device has room.
  void take(uint64_t bytes);
  void give_back(uint64_t bytes);
  // Gives reserved memory that is not in use back to the device, down to `keep_bytes`.
  void trim(uint64_t keep_bytes);
};

std::shared_ptr<MemoryPool> new_pool(Device *device, const CUmemPoolProps &properties);

// What a synchronisation does to the device's pools: memory above the release threshold goes back.
void settle_pools(Device &device);
// Gives back all reserved memory that is not in use, for an allocation that would otherwise fail.
void empty_pools(Device &device);

} // namespace emulator::driver
