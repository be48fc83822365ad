// tcgen05.ld and .st.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "exec/block/cluster.hpp"
#include "exec/block/issue.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/operations/matrix/whole_warp.hpp"
#include "exec/tensor_memory/tensor_memory.hpp"

namespace emulator::tensor_memory {

namespace {

struct Place {
  uint32_t lane, column; // from the address on; a register of two columns counts as one
};

// Where register r of thread t is (PTX ISA, figures of the matrix fragments of tcgen05.ld and .st).
Place place_of(const TensorMoveForm &form, uint32_t r, uint32_t t) {
  switch (form.shape) {
  case TensorShape::lanes32_bits32:
    return {t, r};
  case TensorShape::lanes16_bits64:
    return {t / 4 + t % 2 * 8, t / 2 % 2 + r * 2};
  case TensorShape::lanes16_bits128:
    return {t / 4 + r % 2 * 8, t % 4 + r / 2 * 4};
  case TensorShape::lanes16_bits256:
    return {t / 4 + r / 2 % 2 * 8, t % 4 * 2 + r % 2 + r / 4 * 8};
  default: // halves: the second begins elsewhere
    return {t % 16, r};
  }
}

uint32_t columns_of(const TensorMoveForm &form) {
  bool wide = form.shape != TensorShape::lanes32_bits32 && form.shape != TensorShape::halves;
  return form.registers * (wide ? 2 : 1);
}

// The rows of tensor memory that a warp reaches: of each lane, and of halves those of the second.
struct Rows {
  uint32_t *first[lanes_per_warp], *second[lanes_per_warp];

  Rows(Warp &w, const Instruction *i, const TensorMoveForm &form, const char *name) {
    uint32_t address = operand<uint32_t>(w, i, 0, 0);
    for (uint32_t lane = 1; lane < lanes_per_warp; ++lane)
      if (operand<uint32_t>(w, i, 0, lane) != address)
        fail(w, i, LaunchStatus::illegal_instruction,
             std::string(name) + " by threads that name different addresses", lane);
    TensorAddress at(address + static_cast<uint32_t>(form.address_offset));
    uint32_t lanes = form.shape == TensorShape::lanes32_bits32 ? 32 : 16;
    uint32_t quarter = w.index % 4 * TensorMemory::lanes_of_warp;
    if (at.lane < quarter || at.lane + lanes > quarter + TensorMemory::lanes_of_warp)
      fail(w, i, LaunchStatus::illegal_address,
           std::string(name) + " of lanes " + std::to_string(at.lane) + " to " +
               std::to_string(at.lane + lanes - 1) + " by warp " + std::to_string(w.index) +
               ", which reaches lanes " + std::to_string(quarter) + " to " + std::to_string(quarter + 31),
           0);
    TensorMemory &memory = w.block->tensor();
    uint32_t columns = columns_of(form) * (form.packed ? 2 : 1);
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      first[lane] = second[lane] = memory.row(w, i, 0, at.lane + lane, at.column, columns);
      if (form.shape == TensorShape::halves)
        second[lane] = memory.row(w, i, 0, at.lane + lane, at.column + form.split, columns);
    }
  }

  uint32_t *at(const TensorMoveForm &form, uint32_t r, uint32_t t) const {
    Place place = place_of(form, r, t);
    return (t < 16 ? first : second)[place.lane] + place.column * (form.packed ? 2 : 1);
  }
};

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Like min.f32 and max.f32: NaN counts only where the instruction says so, and -0 is less than 0.
uint32_t reduced_float(const TensorMoveForm &form, const uint32_t *values, uint32_t count) {
  constexpr uint32_t canonical_nan = 0x7fffffff;
  bool least = form.reduction == TensorReduction::minimum, found = false, has_nan = false;
  float best = 0;
  for (uint32_t r = 0; r < count; ++r) {
    float value = float_of(form.absolute ? values[r] & 0x7fffffff : values[r]);
    if (std::isnan(value)) {
      has_nan = true;
      continue;
    }
    bool less = value < best || (value == best && std::signbit(value) && !std::signbit(best));
    bool greater = value > best || (value == best && !std::signbit(value) && std::signbit(best));
    if (!found || (least ? less : greater))
      best = value;
    found = true;
  }
  if (!found || (has_nan && form.keeps_nan))
    return canonical_nan;
  uint32_t bits;
  std::memcpy(&bits, &best, 4);
  return bits;
}

uint32_t reduced_value(const TensorMoveForm &form, const uint32_t *values, uint32_t count) {
  if (form.value == TensorValue::f32)
    return reduced_float(form, values, count);
  auto before = [&](uint32_t a, uint32_t b) {
    return form.value == TensorValue::s32 ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  };
  return form.reduction == TensorReduction::minimum ? *std::min_element(values, values + count, before)
                                                    : *std::max_element(values, values + count, before);
}

uint32_t register_of(const Warp &w, const Instruction *i, uint32_t r) {
  return w.program->extra[i->extra + 1 + r];
}

// tcgen05.ld: the registers from tensor memory.
void fill(Warp &w, const Instruction *i, const TensorMoveForm &form, const Rows &rows) {
  for (uint32_t r = 0; r < form.registers; ++r) {
    if (register_of(w, i, r) == no_offset)
      continue;
    uint32_t *to = w.row<uint32_t>(register_of(w, i, r));
    for (uint32_t t = 0; t < lanes_per_warp; ++t) {
      const uint32_t *cell = rows.at(form, r, t);
      to[t] = form.packed ? (cell[0] & 0xffff) | cell[1] << 16 : cell[0];
    }
  }
  if (form.reduction == TensorReduction::none)
    return;
  for (uint32_t t = 0; t < lanes_per_warp; ++t) {
    uint32_t values[128] = {};
    for (uint32_t r = 0; r < form.registers; ++r)
      values[r] = *rows.at(form, r, t);
    w.row<uint32_t>(register_of(w, i, form.registers))[t] = reduced_value(form, values, form.registers);
  }
}

// tcgen05.st: tensor memory from what values_of(register) has for each lane.
template <typename Values> void put(const TensorMoveForm &form, const Rows &rows, Values values_of) {
  for (uint32_t r = 0; r < form.registers; ++r) {
    const uint32_t *from = values_of(r);
    for (uint32_t t = 0; t < lanes_per_warp; ++t) {
      uint32_t *cell = rows.at(form, r, t);
      cell[0] = form.packed ? from[t] & 0xffff : from[t];
      if (form.packed)
        cell[1] = from[t] >> 16;
    }
  }
}

} // namespace

const Instruction *load(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "tcgen05.ld"))
    return nullptr;
  const TensorMoveForm &form = w.program->tensor_moves[static_cast<size_t>(i->immediate)];
  Rows rows(w, i, form, "tcgen05.ld");
  issue_together(w, ~uint32_t{0}, Track::tensor_loads, {}, [=, &w, &form] { fill(w, i, form, rows); });
  return i + 1;
}

const Instruction *store(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "tcgen05.st"))
    return nullptr;
  const TensorMoveForm &form = w.program->tensor_moves[static_cast<size_t>(i->immediate)];
  Rows rows(w, i, form, "tcgen05.st");
  if (!w.block->pending) {
    put(form, rows, [&](uint32_t r) { return w.row<uint32_t>(register_of(w, i, r)); });
    return i + 1;
  }
  // Only memory is late: registers may change as soon as the instruction is issued.
  std::vector<std::array<uint32_t, lanes_per_warp>> values(form.registers);
  for (uint32_t r = 0; r < form.registers; ++r)
    std::copy_n(w.row<uint32_t>(register_of(w, i, r)), lanes_per_warp, values[r].begin());
  issue_together(w, ~uint32_t{0}, Track::tensor_stores, {}, [&form, rows, values = std::move(values)] {
    put(form, rows, [&](uint32_t r) { return values[r].data(); });
  });
  return i + 1;
}

} // namespace emulator::tensor_memory
