// Physical memory of the virtual memory management API: a memory file, so that one piece can be mapped at
// several addresses.
#pragma once

#include "device/driver.hpp"

#include <fcntl.h>

namespace emulator::driver {

// What a memory file that another process may open is sealed against.
inline constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

struct PhysicalMemory {
  Device *device = nullptr; // null for memory of the host
  uint64_t bytes = 0;
  CUmemAllocationProp properties{};
  int file = -1;
  bool imported = false; // from another process, whose device memory it counts as
  unsigned handles = 1;  // cuMemCreate and every cuMemRetainAllocationHandle
  ~PhysicalMemory();     // when neither a handle nor a mapping is left
};

// Whether all of this is mapped memory that nothing has written yet, neither here nor in another process. It
// has no pages and is zero. False too for less than is worth the question.
bool is_untouched(uint64_t address, uint64_t bytes);

// Writes such memory through its file, which takes half the time of a page fault for each page. False where
// it is no such memory, or not all was written.
bool write_untouched(uint64_t address, const void *source, uint64_t bytes);

} // namespace emulator::driver
