// Where the parameters of a launch lie while it runs: at an address of 32 bits, because PTX may form one in a
// register of 32 bits (mov.b32 %r, parameter), as Triton does for its tensor descriptors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

class ParameterMemory {
public:
  // Zero, and at least `bytes` long, which is at most largest_bytes. Throws std::bad_alloc.
  explicit ParameterMemory(size_t bytes);
  ~ParameterMemory();
  ParameterMemory(const ParameterMemory &) = delete;
  ParameterMemory &operator=(const ParameterMemory &) = delete;
  uint8_t *data() const { return data_; }

  static constexpr size_t largest_bytes = 128 << 10;

private:
  uint8_t *data_;
};

} // namespace emulator
