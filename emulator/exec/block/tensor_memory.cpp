#include "exec/block/tensor_memory.hpp"

#include <algorithm>

namespace emulator {

void TensorMemory::start() {
  allocations_.clear();
  used_ = 0;
  relinquished = false;
}

uint32_t TensorMemory::allocate(uint32_t count, const Warp &warp, const Instruction *by, bool taken) {
  uint32_t units = count / least_columns, mask = units == 16 ? 0xffff : (uint32_t{1} << units) - 1;
  for (uint32_t unit = 0; unit + units <= columns / least_columns; ++unit) {
    if (used_ & mask << unit)
      continue;
    used_ |= mask << unit;
    uint32_t column = unit * least_columns;
    for (uint32_t lane = 0; lane < lanes; ++lane)
      std::fill_n(cells_.begin() + lane * columns + column, count, 0u);
    allocations_.push_back({column, count, &warp, by, taken});
    return column;
  }
  return columns;
}

TensorMemory::Allocation *TensorMemory::pending() {
  for (Allocation &allocation : allocations_)
    if (!allocation.taken)
      return &allocation;
  return nullptr;
}

bool TensorMemory::release(uint32_t column, uint32_t count) {
  for (auto found = allocations_.begin(); found != allocations_.end(); ++found) {
    if (found->column != column || found->count != count)
      continue;
    for (uint32_t unit = column / least_columns; unit < (column + count) / least_columns; ++unit)
      used_ &= ~(uint32_t{1} << unit);
    allocations_.erase(found);
    return true;
  }
  return false;
}

uint32_t TensorMemory::free_columns() const {
  return columns - least_columns * static_cast<uint32_t>(__builtin_popcount(used_));
}

void TensorMemory::refuse(const Warp &w, const Instruction *i, uint32_t thread, uint32_t lane,
                          uint32_t column, uint32_t count) const {
  std::string what = "tensor memory: lane " + std::to_string(lane) + ", columns " + std::to_string(column) +
                     " to " + std::to_string(column + count - 1);
  if (lane >= lanes || column + count > columns)
    what += ", where there are 128 lanes of 512 columns";
  else
    what += ", which are not allocated";
  fail(w, i, LaunchStatus::illegal_address, what, thread);
}

} // namespace emulator
