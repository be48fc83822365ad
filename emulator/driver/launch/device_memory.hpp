// What the kernels of one context may touch.
#pragma once

#include "exec/interface/launch.hpp"
#include "memory/allocations.hpp"

namespace emulator::driver {

class DeviceMemory final : public MemoryMap {
public:
  explicit DeviceMemory(Context &context) : context_(context) {}
  ~DeviceMemory() override;
  Range find(uint64_t address) const override;
  std::string describe(uint64_t address) const override;
  uint64_t device_malloc(uint64_t bytes) override;
  void device_free(uint64_t address) override;
  std::shared_ptr<const Texture> texture(uint64_t handle, std::string &problem) const override;
  std::shared_ptr<const Surface> surface(uint64_t handle, std::string &problem) const override;

private:
  Range find_around(uint64_t address) const;

  Context &context_;
  std::mutex heap_mutex_; // device_malloc is called from executor threads
  uint64_t heap_bytes_ = 0;
  std::vector<std::shared_ptr<Allocation>> freed_;
};

// The context's; under the driver's lock.
std::shared_ptr<MemoryMap> device_memory(Context &context);

} // namespace emulator::driver
