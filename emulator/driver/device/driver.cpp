#include "driver.hpp"

#include "device.hpp"

namespace emulator::driver {

Driver::Driver() {
  for (uint64_t ordinal = 0; ordinal < settings().devices; ++ordinal)
    devices.push_back(std::make_unique<Device>(static_cast<int>(ordinal)));
}

Driver &driver() {
  static Driver *only = new Driver;
  return *only;
}

Device &device_of(CUdevice ordinal) {
  auto &devices = driver().devices;
  require(ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size(), CUDA_ERROR_INVALID_DEVICE);
  return *devices[static_cast<size_t>(ordinal)];
}

} // namespace emulator::driver
