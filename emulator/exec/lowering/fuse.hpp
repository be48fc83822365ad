// Which products of a body become part of a sum (REPLAY_EMULATOR_FUSE).
#pragma once

#include <cstdint>
#include <unordered_map>

#include "ptx/syntax/module.hpp"

namespace emulator {

struct FusedProduct {
  uint32_t product = UINT32_MAX; // position of the mul; UINT32_MAX at the mul itself, which then does nothing
  uint32_t addend = 0;           // operand of the sum that is no product
  bool negates_product = false;
  bool negates_addend = false;
};

// By position in the body: the sums, and the products that are part of one.
std::unordered_map<uint32_t, FusedProduct> find_fused_products(const ptx::Body &body);

} // namespace emulator
