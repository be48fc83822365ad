// `array[3]` and `array[%r1+1]` as operands (PTX ISA, "Arrays as Operands"): the address of an element for
// mov and cvta, the element itself for ld and st. As ptxas 13.0 does it, the index counts elements of the
// declared type (of a vector or of an array of arrays, too, the single ones), and index and offset have 32
// bits, which are widened without a sign.
#include "ptx/body/parser.hpp"
#include "ptx/syntax/expression.hpp"

namespace emulator::ptx {

namespace {

bool has_component(std::string_view opcode, std::string_view component) {
  for (size_t at = 0; (at = opcode.find(component, at)) != std::string_view::npos; at += component.size()) {
    char next = at + component.size() < opcode.size() ? opcode[at + component.size()] : '.';
    if (next == '.' || next == ':')
      return true;
  }
  return false;
}

} // namespace

Operand BodyParser::element_of_array(uint32_t symbol) {
  std::string_view mnemonic = opcode_.substr(0, opcode_.find('.'));
  bool is_access = mnemonic == "ld" || mnemonic == "st" || mnemonic == "ldu";
  if (!is_access && mnemonic != "mov" && mnemonic != "cvta")
    lexer_.fail_here(std::string(mnemonic) + " takes no element of an array");
  const Variable *array = body_.symbols[symbol].variable;
  if (array == nullptr)
    lexer_.fail_here("a function has no elements");
  Operand result;
  if (at_constant(lexer_)) {
    result.kind = Operand::Kind::symbol;
    result.index = symbol;
    result.value = static_cast<uint32_t>(integer_expression(lexer_)) * size_bytes(array->type);
    result.value &= UINT32_MAX;
  } else {
    std::string_view name = lexer_.name();
    RegisterName found;
    if (!find_register(name, found) || found.width != 1)
      lexer_.fail("expected a register or a number as the index of an element");
    auto addend = lexer_.accept('+') ? static_cast<uint32_t>(integer_expression(lexer_)) : 0;
    result = computed_element(*array, symbol, element_of(found, 0), addend);
  }
  lexer_.expect(']', "after the index of an element");
  if (is_access) {
    result.base = result.kind;
    result.kind = Operand::Kind::memory;
  }
  return result;
}

// An instruction of the parser's own in front of the one that is being read, and the register that it makes.
Operand BodyParser::made(std::string_view opcode, Type type, const std::vector<Operand> &from) {
  Operand to;
  to.kind = Operand::Kind::reg;
  to.index = static_cast<uint32_t>(body_.registers.size());
  body_.registers.push_back(type);
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.source = location_;
  instruction.source.ptx_line = lexer_.line();
  instruction.first_operand = static_cast<uint32_t>(body_.operands.size());
  instruction.operand_count = static_cast<uint32_t>(from.size() + 1);
  body_.operands.push_back(to);
  body_.operands.insert(body_.operands.end(), from.begin(), from.end());
  body_.instructions.push_back(instruction);
  return to;
}

Operand BodyParser::computed_element(const Variable &array, uint32_t symbol, Operand index, uint32_t addend) {
  auto number = [](uint32_t value) {
    Operand constant;
    constant.kind = Operand::Kind::integer;
    constant.value = value;
    return constant;
  };
  Type type = body_.registers[index.index];
  uint32_t bytes = size_bytes(type);
  if (is_float(type) || type == Type::pred || (bytes != 2 && bytes != 4 && bytes != 8))
    lexer_.fail("a register of type ." + std::string(name_of(type)) + " as the index of an element");
  if (bytes == 2)
    index = made(is_signed(type) ? "cvt.u32.s16" : "cvt.u32.u16", Type::u32, {index});
  else if (bytes == 8)
    index = made("cvt.u32.u64", Type::u32, {index});
  if (addend != 0)
    index = made("add.u32", Type::u32, {index, number(addend)});
  Operand offset = made("mul.lo.u32", Type::u32, {index, number(size_bytes(array.type))});
  Operand base;
  base.kind = Operand::Kind::symbol;
  base.index = symbol;
  if (opcode_.substr(0, 3) == "mov" && opcode_.size() > 2 && opcode_.substr(opcode_.size() - 2) == "32")
    return made("add.u32", Type::u32, {made("mov.u32", Type::u32, {base}), offset});
  Operand address = made("add.u64", Type::u64,
                         {made("mov.u64", Type::u64, {base}), made("cvt.u64.u32", Type::u64, {offset})});
  // Without a state space, an access is generic.
  bool is_access = opcode_.substr(0, 2) == "ld" || opcode_.substr(0, 2) == "st";
  for (std::string_view space : {".shared", ".local", ".global", ".const", ".param"})
    if (has_component(opcode_, space))
      return address;
  if (is_access && array.space == Space::shared)
    address = made("cvta.shared.u64", Type::u64, {address});
  else if (is_access && array.space == Space::local)
    address = made("cvta.local.u64", Type::u64, {address});
  return address;
}

} // namespace emulator::ptx
