// ldmatrix, stmatrix, movmatrix.
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

// What the name of an operation says after the number of matrices. Takes it out of the opcode.
static std::string matrix_form(Opcode &opcode) {
  bool transposed = opcode.remove("trans"), stores = opcode.mnemonic == "stmatrix";
  if (opcode.remove("m8n8"))
    return opcode.remove("b16") ? transposed ? ".trans" : "" : "?";
  if (stores)
    return opcode.remove("m16n8") && opcode.remove("b8") && transposed ? ".m16n8" : "?";
  bool high = opcode.remove("m16n16");
  if (high != transposed || (!high && !opcode.remove("m8n16")))
    return "?";
  const char *bits = opcode.remove("b8")          ? high ? ".8" : "?"
                     : !opcode.remove("b8x16")    ? "?"
                     : opcode.remove("b6x16_p32") ? ".6"
                     : opcode.remove("b4x16_p64") ? ".4"
                                                  : "?";
  return (high ? ".m16n16" : ".m8n16") + std::string(bits);
}

void Lowering::move_matrix(Opcode &opcode) {
  if (!opcode.remove("sync") || !opcode.remove("aligned"))
    unsupported();
  std::string form(opcode.mnemonic);
  if (form == "movmatrix") {
    if (!opcode.remove("m8n8") || !opcode.remove("trans") || !opcode.remove("b16") ||
        !opcode.modifiers.empty() || operand_count() != 2)
      unsupported();
    uint32_t from = source(operand(1), Type::b32);
    Lowered &lowered = emit("movmatrix.trans", {from}, destination(operand(0), Type::b32));
    lowered.counted = 1;
    apply_guard(lowered);
    finish_destinations();
    return;
  }
  bool loads = form == "ldmatrix";
  std::string kind = matrix_form(opcode);
  uint32_t matrices = opcode.remove("x1") ? 1 : opcode.remove("x2") ? 2 : opcode.remove("x4") ? 4 : 0;
  bool high = kind.rfind(".m16n16", 0) == 0;
  uint32_t count = high ? 2 * matrices : matrices;
  AccessForm access = access_form(opcode);
  if (count == 0 || !access.rest.empty() || operand_count() != 2)
    unsupported();
  form += ".x" + std::to_string(matrices) + kind;
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
  Lowered &lowered = emit(operation(form).handler);
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
