// Addresses that a program has reserved.
#pragma once

#include "device/driver.hpp"

#include <utility>

namespace emulator::driver {

// Takes the addresses that the driver has to itself, if it has any. False where something else is there.
bool claim_own_range();

// Base and size of the reservation that holds the address; size 0 when none does.
std::pair<uint64_t, uint64_t> reservation_of(uint64_t address);
// Whether one reservation holds all of it.
bool is_reserved(uint64_t address, uint64_t bytes);

} // namespace emulator::driver
