// What a program has said about managed memory. It changes no result here, because the memory is plain memory
// that every processor reaches; it is kept so that cuMemRangeGetAttribute gives it back.
#pragma once

#include "core/api.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace emulator::driver {

// A processor by CUmemLocation's rules: type INVALID is "none", HOST has no id that matters.
struct Processor {
  CUmemLocationType type = CU_MEM_LOCATION_TYPE_INVALID;
  int id = CU_DEVICE_INVALID;
  bool operator==(const Processor &other) const { return type == other.type && id == other.id; }
};

struct Advice {
  bool read_mostly = false;
  Processor preferred, prefetched;
  uint32_t accessed_by_devices = 0; // bit per ordinal
  bool accessed_by_host = false;
};

// Advice by address; neighbours may be equal.
class AdvisedRanges {
public:
  // Every piece of [begin, end), cut so that no piece reaches over its ends.
  std::vector<Advice *> pieces(uint64_t begin, uint64_t end);
  // The same for reading; unadvised pieces appear as one default Advice each.
  std::vector<Advice> at(uint64_t begin, uint64_t end) const;

private:
  void cut(uint64_t address);
  std::map<uint64_t, Advice> from_; // valid up to the next key; nothing before the first
};

} // namespace emulator::driver
