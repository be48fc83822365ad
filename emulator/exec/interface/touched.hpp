// Which bytes each memory instruction of a launch touched, for REPLAY_EMULATOR_TOUCHED: what the flow of data
// from word to word is worked out from.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>

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

} // namespace emulator
