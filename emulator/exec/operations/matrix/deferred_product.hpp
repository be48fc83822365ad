// A product of wgmma that is issued now and done later.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/block/cluster.hpp"
#include "exec/block/pending.hpp"
#include "exec/program/matrix.hpp"

namespace emulator {

// `perform` multiplies what is in memory and in the registers of A and C when it is called. Of registers that
// have changed since wgmma.fence it sees what was there then.
template <typename Perform>
void defer_product(Warp &w, const MatrixForm &form, const uint32_t *a, const uint32_t *d, bool adds,
                   Perform perform) {
  const Block *block = w.block;
  std::vector<uint32_t> taken, unfenced, results(d, d + form.d.registers);
  if (!form.shared_a)
    taken.assign(a, a + form.a.registers);
  if (adds)
    taken.insert(taken.end(), results.begin(), results.end());
  constexpr size_t row_bytes = 4 * lanes_per_warp;
  for (uint32_t row : taken)
    if (std::memcmp(w.registers + row, block->fenced_row(w, row), row_bytes) != 0)
      unfenced.push_back(row);
  PendingOperation operation;
  operation.warp = &w;
  operation.lanes = ~uint32_t{0};
  operation.track = Track::products;
  operation.in_order = true;
  operation.finish = [=, &w](uint32_t) {
    auto exchange = [&] {
      for (uint32_t row : unfenced)
        std::swap_ranges(w.registers + row, w.registers + row + row_bytes, block->fenced_row(w, row));
    };
    exchange();
    perform();
    exchange();
    for (uint32_t row : results) {
      bool exchanged = std::find(unfenced.begin(), unfenced.end(), row) != unfenced.end();
      uint8_t *seen = block->fenced_row(w, row);
      if (exchanged)
        std::memcpy(w.registers + row, seen, row_bytes);
      else
        std::memcpy(seen, w.registers + row, row_bytes);
    }
  };
  w.block->pending->issue(std::move(operation));
}

} // namespace emulator
