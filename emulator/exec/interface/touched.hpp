// Which bytes each memory instruction of a launch touched, for REPLAY_EMULATOR_TOUCHED: what the flow of data
// from word to word is worked out from.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/interface/findings.hpp"

namespace emulator {

enum class TouchedSpace : uint8_t { global, shared, local };
constexpr const char *touched_space_names[] = {"global", "shared", "local"};

constexpr uint64_t touched_page_bytes = 4096;
// Page number -> a bit for each of its bytes.
using TouchedPages = std::unordered_map<uint64_t, std::array<uint64_t, touched_page_bytes / 64>>;

// Text of the module, PTX line, whether it was written, space. Offsets in shared memory are from its begin,
// in local memory from that of the thread's own.
using TouchedKey = std::tuple<uint32_t, uint32_t, bool, TouchedSpace>;
using Touched = std::map<TouchedKey, TouchedPages>;

// Lanes of a warp that were the first of the launch, at one line, to touch some byte of what each touches.
struct Toucher {
  uint64_t base = 0; // of the lowest of the lanes; the next one is `stride` further
  uint64_t block = 0;
  uint32_t warp = 0, lanes = 0, bytes = 0;
  int32_t stride = 0;
};

// What memory held before the first accesses, and what these wrote, where that is known.
struct TouchedValues {
  std::array<uint8_t, touched_page_bytes> before, after;
  std::array<uint64_t, touched_page_bytes / 64> is_after_known;
};

// Of one key, who touched its bytes first. Values are kept of the pages that the launch asks for.
struct TouchedSite {
  Side side; // without block and thread
  std::array<uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::vector<Toucher> touchers;
  std::unordered_map<uint64_t, TouchedValues> values;
};
using TouchedSites = std::map<TouchedKey, TouchedSite>;
// Pages whose values are kept: of those that read, and of those that write.
using WatchedPages = std::array<std::unordered_set<uint64_t>, 2>;

} // namespace emulator
