// Stream-ordered allocation: cuMemAllocAsync and memory pools.
#pragma once

#include "core/driver.hpp"

namespace emulator::driver {

struct MemoryPool {
  Device *device = nullptr;
  CUmemPoolProps properties{};
  bool is_default = false;
  uint64_t release_threshold_bytes = 0;
  int reuse[3] = {1, 1, 1}; // follow event dependencies, opportunistic, internal dependencies
  uint64_t used_bytes = 0;
  uint64_t used_high_bytes = 0;
};

std::shared_ptr<MemoryPool> new_pool(Device &device, const CUmemPoolProps &properties);

} // namespace emulator::driver
