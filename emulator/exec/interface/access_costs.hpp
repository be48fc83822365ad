// What each load, store and atomic operation of a launch cost, line by line, for REPLAY_EMULATOR_COUNTERS.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "exec/interface/counters.hpp"

namespace emulator {

struct AccessCost {
  GlobalCounters global;
  SharedCounters shared = {};
  uint32_t file = 0; // number of its .file, 0 when there is no .loc
  uint32_t line = 0; // in that file
};

// Text of the module, PTX line, kind.
using AccessKey = std::tuple<uint32_t, uint32_t, AccessKind>;
using AccessCosts = std::map<AccessKey, AccessCost>;

// An access with the texts that people know it by.
struct NamedAccess {
  AccessKey key;
  AccessCost cost;
  std::string instruction; // as the PTX has it
  std::string file;        // without its folders; empty when not known
};

} // namespace emulator
