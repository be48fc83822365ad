// Products that become part of a sum, as ptxas does: a product without a rounding of its own whose only use
// is a sum or difference without one, in the same basic block, is computed and added in one step and rounded
// once.
#include <algorithm>

#include "exec/lowering/fuse.hpp"
#include "exec/lowering/opcode.hpp"

namespace emulator {

namespace {

using ptx::Operand;
using ptx::Type;

// "mul.f32", "add.ftz.f64" and the like: no rounding, no saturation.
bool is_plain(std::string_view opcode, std::string_view mnemonic, bool &flush, Type &type) {
  Opcode parts(opcode);
  if (parts.mnemonic != mnemonic)
    return false;
  flush = parts.remove("ftz");
  if (parts.modifiers.size() != 1)
    return false;
  type = ptx::type_from_name(parts.modifiers[0]);
  return ptx::is_float(type) || type == Type::f16x2 || type == Type::bf16x2;
}

bool ends_block(std::string_view opcode) {
  std::string_view mnemonic = opcode.substr(0, opcode.find('.'));
  return mnemonic == "bra" || mnemonic == "brx" || mnemonic == "call" || mnemonic == "ret" ||
         mnemonic == "exit";
}

} // namespace

std::unordered_map<uint32_t, FusedProduct> find_fused_products(const ptx::Body &body) {
  std::vector<uint32_t> mentions(body.registers.size(), 0);
  auto mention = [&](const Operand &operand) {
    if (operand.kind == Operand::Kind::reg ||
        (operand.kind == Operand::Kind::memory && operand.base == Operand::Kind::reg))
      ++mentions[operand.index];
  };
  std::for_each(body.operands.begin(), body.operands.end(), mention);
  for (const ptx::Instruction &instruction : body.instructions)
    if (instruction.guard >= 0)
      ++mentions[static_cast<uint32_t>(instruction.guard)];
  std::vector<bool> is_target(body.instructions.size() + 1, false);
  for (const ptx::LabelReference &label : body.labels)
    if (!label.is_table)
      is_target[label.position] = true;

  std::unordered_map<uint32_t, FusedProduct> fused;
  std::unordered_map<uint32_t, uint32_t> product_of; // register -> position, in this block
  std::unordered_map<uint32_t, uint32_t> written_at; // register -> last position that names it first
  for (uint32_t position = 0; position < body.instructions.size(); ++position) {
    const ptx::Instruction &instruction = body.instructions[position];
    if (is_target[position])
      product_of.clear();
    auto operand = [&](uint32_t number) -> const Operand & {
      return body.operands[instruction.first_operand + number];
    };
    bool flush = false;
    Type type = Type::none;
    bool adds = is_plain(instruction.opcode, "add", flush, type);
    bool subtracts = !adds && is_plain(instruction.opcode, "sub", flush, type);
    if ((adds || subtracts) && instruction.operand_count == 3 && instruction.guard < 0) {
      for (uint32_t side = 1; side <= 2; ++side) {
        if (operand(side).kind != Operand::Kind::reg)
          continue;
        auto found = product_of.find(operand(side).index);
        if (found == product_of.end())
          continue;
        const ptx::Instruction &product = body.instructions[found->second];
        bool product_flush = false;
        Type product_type = Type::none;
        is_plain(product.opcode, "mul", product_flush, product_type);
        // The factors must still be what they were.
        bool kept = product_type == type && product_flush == flush;
        for (uint32_t factor = 1; factor <= 2; ++factor) {
          const Operand &value = body.operands[product.first_operand + factor];
          auto written = value.kind == Operand::Kind::reg ? written_at.find(value.index) : written_at.end();
          kept &= written == written_at.end() || written->second < found->second;
        }
        if (!kept)
          continue;
        fused[found->second] = {UINT32_MAX, 0, false, false};
        fused[position] = {found->second, side == 1 ? 2u : 1u, subtracts && side == 2,
                           subtracts && side == 1};
        break;
      }
    }
    // What an instruction may write: its first operand, or the elements of it.
    if (instruction.operand_count > 0) {
      const Operand &first = operand(0);
      if (first.kind == Operand::Kind::reg)
        written_at[first.index] = position;
      for (uint32_t e = 0; e < first.count; ++e)
        if (body.operands[first.index + e].kind == Operand::Kind::reg)
          written_at[body.operands[first.index + e].index] = position;
    }
    if (ends_block(instruction.opcode))
      product_of.clear();
    if (is_plain(instruction.opcode, "mul", flush, type) && instruction.operand_count == 3 &&
        instruction.guard < 0 && operand(0).kind == Operand::Kind::reg && mentions[operand(0).index] == 2)
      product_of[operand(0).index] = position;
  }
  return fused;
}

} // namespace emulator
