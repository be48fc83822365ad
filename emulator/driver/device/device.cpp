#include "device.hpp"

#include "core/heap.hpp"

#include <cstdio>
#include <cstring>

namespace emulator::driver {
namespace {

// The row that is used is the last one not above the device's capability.
constexpr Architecture architectures[] = {
    {50, 2048, 32, 65536, 49152, 0},       {60, 2048, 32, 65536, 49152, 0},
    {61, 2048, 32, 98304, 49152, 0},       {70, 2048, 32, 98304, 98304, 0},
    {75, 1024, 16, 65536, 65536, 0},       {80, 2048, 32, 167936, 166912, 1024},
    {86, 1536, 16, 102400, 101376, 1024},  {87, 1536, 16, 167936, 166912, 1024},
    {89, 1536, 24, 102400, 101376, 1024},  {90, 2048, 32, 233472, 232448, 1024},
    {100, 2048, 32, 233472, 232448, 1024}, {120, 1536, 24, 102400, 101376, 1024},
};

Architecture architecture_of(int sm) {
  Architecture result = architectures[0];
  for (const auto &row : architectures)
    if (row.sm <= sm)
      result = row;
  result.sm = sm;
  return result;
}

} // namespace

Device::Device(int number)
    : ordinal(number), architecture(architecture_of(settings().compute_capability.sm())),
      total_bytes(settings().memory_bytes), heap(std::make_unique<Heap>()) {}

Device::~Device() = default;

std::string Device::name() const { return "Emulated CPU device"; }

std::string Device::pci_bus_id() const {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", 0xE0 + ordinal);
  return text;
}

CUuuid Device::uuid() const {
  // The layout of a random UUID (RFC 9562, version 4), the same in every process.
  CUuuid result;
  const unsigned char fixed[16] = {'r',       'e', 'p', 'l', 'a', 'y', 0x4C, 'p',
                                   0x8u << 4, 'e', 'm', 'u', 0,   0,   0,    0};
  std::memcpy(result.bytes, fixed, sizeof fixed);
  result.bytes[15] = static_cast<char>(ordinal);
  return result;
}

void Device::take(uint64_t bytes) {
  require(bytes <= total_bytes - used_bytes, CUDA_ERROR_OUT_OF_MEMORY);
  used_bytes += bytes;
}

void Device::give_back(uint64_t bytes) { used_bytes -= bytes; }

} // namespace emulator::driver
