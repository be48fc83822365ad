// ldmatrix, stmatrix, movmatrix.
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

void Lowering::move_matrix(Opcode &opcode) {
  if (!opcode.remove("sync") || !opcode.remove("aligned") || !opcode.remove("m8n8") || !opcode.remove("b16"))
    unsupported();
  std::string form(opcode.mnemonic);
  std::string transposed = opcode.remove("trans") ? ".trans" : "";
  if (form == "movmatrix") {
    form += transposed;
    if (!opcode.modifiers.empty() || operand_count() != 2)
      unsupported();
    uint32_t from = source(operand(1), Type::b32);
    Lowered &lowered = emit(form, {from}, destination(operand(0), Type::b32));
    lowered.counted = 1;
    apply_guard(lowered);
    finish_destinations();
    return;
  }
  bool loads = form == "ldmatrix";
  uint32_t count = opcode.remove("x1") ? 1 : opcode.remove("x2") ? 2 : opcode.remove("x4") ? 4 : 0;
  AccessForm access = access_form(opcode);
  if (count == 0 || !access.rest.empty() || operand_count() != 2)
    unsupported();
  if (access.space != ptx::Space::shared && access.space != ptx::Space::generic)
    unsupported();
  const Operand &list = operand(loads ? 0 : 1);
  if (list.kind == Kind::vector ? list.count != count : count != 1)
    unsupported("with a list of another length");
  ptx::Space space = access.space;
  int64_t offset;
  bool wide;
  uint32_t row = access_row(operand(loads ? 1 : 0), access, space, offset, wide);
  std::vector<uint32_t> registers;
  for (uint32_t r = 0; r < count; ++r) {
    const Operand &one = list.kind == Kind::vector ? element(list, r) : list;
    registers.push_back(loads ? destination(one, Type::b32) : source(one, Type::b32));
  }
  Lowered &lowered = emit(operation(form + ".x" + std::to_string(count) + transposed).handler);
  refer(lowered, Field::a, row, false);
  for (uint32_t value : registers)
    refer(lowered, Field::list, value, loads);
  lowered.list = std::move(registers);
  lowered.instruction.space = space;
  lowered.instruction.site = ++program_.sites;
  lowered.instruction.immediate = offset;
  lowered.instruction.wide_address = wide;
  lowered.instruction.element_bytes = 16;
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

} // namespace emulator
