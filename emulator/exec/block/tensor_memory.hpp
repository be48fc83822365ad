// Tensor memory of a block: 128 lanes of 512 columns of 32 bits, allocated column by column.
#pragma once

#include <string>
#include <vector>

#include "exec/warp/warp.hpp"

namespace emulator {

// What WaitingGroup::barrier says of those that wait for columns.
constexpr int32_t waits_for_tensor_memory = -5;

// A 32-bit address of it: the lane above 16 bits of a column.
struct TensorAddress {
  uint32_t lane, column;
  explicit TensorAddress(uint32_t address) : lane(address >> 16), column(address & 0xffff) {}
};

class TensorMemory {
public:
  static constexpr uint32_t lanes = 128, columns = 512, least_columns = 32, lanes_of_warp = 32;

  struct Allocation {
    uint32_t column = 0, count = 0;
    const Warp *warp = nullptr; // whose instruction it was
    const Instruction *by = nullptr;
    bool taken = true; // false: the other block of the pair has it for this one, which has not come yet
  };

  TensorMemory() : cells_(size_t{lanes} * columns) {}
  void start(); // of a block

  // The first column of `count` that were free and are now zero; `columns` where there are none.
  uint32_t allocate(uint32_t count, const Warp &warp, const Instruction *by, bool taken);
  // The allocation that the other block of the pair made for this one, or nullptr.
  Allocation *pending();
  bool release(uint32_t column, uint32_t count);
  uint32_t free_columns() const;
  const std::vector<Allocation> &allocations() const { return allocations_; }

  // `count` columns of a lane. Ends the launch, for `thread` of the warp, where they are not there or not
  // allocated.
  uint32_t *row(const Warp &w, const Instruction *i, uint32_t thread, uint32_t lane, uint32_t column,
                uint32_t count) {
    if (lane >= lanes || column + count > columns || !is_allocated(column, count))
      refuse(w, i, thread, lane, column, count);
    return cells_.data() + size_t{lane} * columns + column;
  }

  bool relinquished = false;
  std::vector<float> scratch; // of products

private:
  bool is_allocated(uint32_t column, uint32_t count) const {
    for (uint32_t unit = column / least_columns; unit <= (column + count - 1) / least_columns; ++unit)
      if (!(used_ >> unit & 1))
        return false;
    return true;
  }
  [[noreturn]] void refuse(const Warp &w, const Instruction *i, uint32_t thread, uint32_t lane,
                           uint32_t column, uint32_t count) const;

  std::vector<uint32_t> cells_;
  std::vector<Allocation> allocations_;
  uint32_t used_ = 0; // a bit for each 32 columns
};

} // namespace emulator
