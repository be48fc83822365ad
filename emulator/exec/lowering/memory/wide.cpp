// Registers of 128 bits: each is two rows of 64.
#include "exec/access/wide.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

std::pair<uint32_t, uint32_t> Lowering::halves(const Operand &operand) {
  if (operand.kind == Kind::reg && body_.registers[operand.index] == Type::b128)
    return {variable_of(operand.index), upper_half_.at(operand.index)};
  if (operand.kind == Kind::vector && operand.count == 2)
    return {source(element(operand, 0), Type::b64), source(element(operand, 1), Type::b64)};
  if (operand.kind == Kind::integer)
    return {values_.constant(static_cast<uint64_t>(operand.value), 8), values_.constant(0, 8)};
  unsupported("with operands that have not 128 bits");
}

void Lowering::move_wide() {
  const Operand &to = operand(0), &from = operand(1);
  auto [low, high] = halves(from);
  uint32_t to_low, to_high;
  if (to.kind == Kind::vector && to.count == 2) {
    to_low = destination(element(to, 0), Type::b64);
    to_high = destination(element(to, 1), Type::b64);
  } else {
    std::tie(to_low, to_high) = halves(to);
  }
  // mov.b128 {a, b}, {b, a} does not exist: one side is a register of 128 bits, so neither half is
  // overwritten early.
  apply_guard(emit("mov.b64", {low}, to_low));
  Lowered &last = emit("mov.b64", {high}, to_high);
  last.counted = 1;
  apply_guard(last);
  finish_destinations();
}

void Lowering::atomic_wide(const AccessForm &form, std::string_view name) {
  bool compares = name == "cas";
  if ((!compares && name != "exch") || instruction_->opcode.substr(0, 4) != "atom" ||
      operand_count() < (compares ? 4u : 3u))
    unsupported();
  uint32_t address = generic_row(operand(1), form.space);
  auto [low, high] = halves(operand(2));
  auto [new_low, new_high] = compares ? halves(operand(3)) : std::pair(UINT32_MAX, UINT32_MAX);
  bool wants = operand(0).kind != Kind::sink;
  auto [to_low, to_high] = wants ? halves(operand(0)) : std::pair(UINT32_MAX, UINT32_MAX);
  Lowered &lowered = emit_list(wide::atomic, {address, low, high, new_low, new_high});
  lowered.instruction.order = form.order;
  for (uint32_t result : {to_low, to_high}) {
    lowered.list.push_back(result);
    if (wants) {
      refer(lowered, Field::list, result, true);
      lowered.references.back().uses = true;
    }
  }
  lowered.counted = 1;
  apply_guard(lowered);
}

} // namespace emulator
