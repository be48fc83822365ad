// What a launch asks for, before and after its attributes are applied.
#pragma once

#include "core/driver.hpp"
#include "exec/program.hpp"

namespace emulator::driver {

struct LaunchShape {
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  CUevent completion_event = nullptr; // recorded when the kernel has run
};

// Reads and validates the attributes of a launch configuration.
LaunchShape shape_of(const CUlaunchConfig &config);

// Largest number of blocks in a cluster of this kernel.
uint32_t largest_cluster(const Function &function);

// Completes the cluster from the kernel's own requirement and validates it.
void require_cluster(const Function &function, const Device &device, LaunchShape &shape);

} // namespace emulator::driver
