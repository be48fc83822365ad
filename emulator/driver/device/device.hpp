// One emulated device: its size, its modelled rates and its primary context.
#pragma once

#include "driver.hpp"

#include <string>

namespace emulator::driver {

// Limits that follow from the compute capability (CUDA C++ Programming Guide, table of technical
// specifications).
struct Architecture {
  int sm;
  uint32_t threads_per_multiprocessor;
  uint32_t blocks_per_multiprocessor;
  uint32_t shared_per_multiprocessor_bytes;
  uint32_t shared_per_block_optin_bytes;
  uint32_t reserved_shared_per_block_bytes;
  // In which blocks are given shared memory (cuda_occupancy.h; PTX ISA, %total_smem_size).
  uint32_t shared_unit_bytes() const { return sm < 80 ? 256 : 128; }
};

class Heap;

struct Device {
  explicit Device(int ordinal);
  ~Device();

  int ordinal;
  Architecture architecture;
  uint64_t total_bytes;
  uint64_t used_bytes = 0;
  std::unique_ptr<Heap> heap;
  std::shared_ptr<Context> primary; // made at the first retain, kept as long as the process
  unsigned primary_retains = 0;
  unsigned primary_flags = 0;
  std::shared_ptr<MemoryPool> default_pool;
  std::shared_ptr<MemoryPool> current_pool;

  // Called when a thread has waited for the device's work. Null before there is a pool.
  void (*after_wait)(Device &device) = nullptr;

  std::string name() const;
  CUuuid uuid() const;
  std::string pci_bus_id() const;

  // Takes `bytes` from the device's memory, or throws CUDA_ERROR_OUT_OF_MEMORY.
  void take(uint64_t bytes);
  void give_back(uint64_t bytes);
};

// cuDeviceGetAttribute's answer. Throws CUDA_ERROR_INVALID_VALUE for a number that is no attribute.
int attribute_of(const Device &device, CUdevice_attribute attribute);

} // namespace emulator::driver
