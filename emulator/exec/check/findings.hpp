// Findings while a launch runs: counted by the two places in the code, bounded, and the same whatever threads
// of the host run the blocks.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "exec/warp/worker.hpp"

namespace emulator {

// `found` with names and places.
std::vector<Finding> named(const FoundPlaces &found, const Launch &launch);
// Says where in the code each of the sites is.
void place_sites(TouchedSites &sites, const Launch &launch);
void add(FoundPlaces &to, const FoundPlaces &more);
void note(FoundPlaces &to, const FoundKey &key, const FoundExample &example);

} // namespace emulator
