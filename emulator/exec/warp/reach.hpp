// Where the lanes of a memory instruction are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exec/interface/counters.hpp"
#include "exec/program/program.hpp"

namespace emulator {

constexpr uint32_t lanes_of_piece = 8;

// The first four also say what the offset of each piece's first lane is.
enum class Pattern : uint8_t {
  uniform,           // all active lanes at one address
  contiguous,        // lane l at lowest + l * bytes; the active lanes are the lowest ones
  pieces_uniform,    // all lanes active; each piece of 8 lanes at one address
  pieces_contiguous, // all lanes active; each piece as contiguous
  scattered,         // lane l at lowest + offset[l]
  far_apart,         // likewise, but further apart than offsets reach
};

// Where the lanes of one access are, without the instruction's own offset, so that several instructions whose
// addresses are in one row share it (Instruction::slot). find_reach() fills it.
struct Reach {
  Pattern pattern;
  uint32_t bytes;       // of each lane's access
  uint32_t active;      // lanes it was made for
  uint32_t lanes;       // how many
  uint32_t first;       // lowest active lane
  uint32_t offset_bits; // all offsets, or-ed
  uint64_t lowest;      // address, window of the state space included
  uint64_t span;        // from there to the end of the highest access
  uint64_t own_least;   // local memory: the lowest and the highest address inside the thread's own
  uint64_t own_most;
  // What known_reach() goes by: an access with the offset `o` is inside when o + origin <= room, both
  // unsigned.
  uint64_t origin;
  uint64_t room;
  uint32_t checked; // the lanes for which that holds; 0: none
  bool writable;    // and whether it does for writes
  bool is_shared;   // shared memory, else global memory
  SharedCounters
      cost[2]; // in shared memory, of a load or store and of an atomic operation; requests 0: not known
  alignas(64) uint32_t offset[lanes_per_warp];
};

// The address of each lane, of those that are far apart from `addresses`; of those that are not active any
// number.
inline void lane_addresses(const Reach &reach, uint64_t lowest, const uint64_t *addresses, uint32_t bytes,
                           uint64_t *place) {
  switch (reach.pattern) {
  case Pattern::far_apart:
    std::copy_n(addresses, lanes_per_warp, place);
    break;
  case Pattern::uniform:
    std::fill_n(place, lanes_per_warp, lowest);
    break;
  case Pattern::contiguous:
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      place[l] = lowest + uint64_t{l} * bytes;
    break;
  default:
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      place[l] = lowest + reach.offset[l];
  }
}

constexpr uint32_t reach_slots = 8;
// Sectors of 32 bytes that one access may spread over and still be counted with marks: 1 MiB.
constexpr uint32_t marked_sectors = 1 << 15;

// Kept by a worker for the group of lanes that runs; forgotten whenever another group does (Warp::enter).
struct ReachSlots {
  uint32_t known = 0; // bit s: slot s, from 1, holds what its first instruction found
  Reach slot[reach_slots];
  // Loads and stores to shared memory that repeat what the slot's first access cost: counted by number alone
  // until the slot is filled anew or the launch ends. Index: slot - 1, AccessKind.
  uint64_t repeats[reach_slots][2] = {};
  void set_known(uint32_t s, bool is_known) {
    known = (known & ~(uint32_t{1} << s)) | static_cast<uint32_t>(is_known) << s;
  }
  void settle(uint32_t s, LaunchCounters &counters) {
    for (size_t kind = 0; kind < 2; ++kind) {
      if (uint64_t &times = repeats[s - 1][kind]; times != 0) {
        const SharedCounters &cost = slot[s - 1].cost[0];
        SharedCounters &sum = counters.shared[kind];
        sum.requests += times * cost.requests;
        sum.bytes += times * cost.bytes;
        sum.wavefronts += times * cost.wavefronts;
        sum.bank_conflicts += times * cost.bank_conflicts;
        times = 0;
      }
    }
  }
};

} // namespace emulator
