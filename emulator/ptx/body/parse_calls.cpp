#include "ptx/body/parser.hpp"

namespace emulator::ptx {

// Parameters in registers (.func (.reg .b32 r) f (.reg .b32 a)) travel as .param variables do: the function
// begins with loads and ends with stores of them, and a call stores and loads around itself.

void BodyParser::register_parameter(const Variable &variable) {
  auto first = static_cast<uint32_t>(body_.registers.size());
  body_.registers.push_back(variable.type);
  scopes_.back().registers.insert({variable.name, {variable.type, first, 0}});
  parameter_registers_[&variable] = first;
}

// "ld.param.b32" and so on, by the size of the type.
std::string_view BodyParser::move_opcode(std::string_view name, Type type) {
  static constexpr std::string_view loads[] = {"ld.param.b8", "ld.param.b16", "ld.param.b32", "ld.param.b64"};
  static constexpr std::string_view stores[] = {"st.param.b8", "st.param.b16", "st.param.b32",
                                                "st.param.b64"};
  uint32_t bytes = size_bytes(type);
  if (type == Type::pred || bytes > 8 || bytes == 0)
    lexer_.fail("a parameter in a register of type ." + std::string(name_of(type)) + " is not supported");
  return (name == "ld.param" ? loads : stores)[bytes == 8 ? 3 : bytes == 4 ? 2 : bytes - 1];
}

Instruction BodyParser::move(std::string_view name, Type type, const Variable &variable,
                             const Operand &value) {
  Instruction made;
  made.opcode = move_opcode(name, type);
  made.source = location_;
  made.source.ptx_line = lexer_.line();
  made.first_operand = static_cast<uint32_t>(body_.operands.size());
  made.operand_count = 2;
  Operand memory;
  memory.kind = Operand::Kind::memory;
  memory.base = Operand::Kind::symbol;
  memory.index = symbol({const_cast<Variable *>(&variable), nullptr});
  bool loads = name == "ld.param";
  body_.operands.push_back(loads ? value : memory);
  body_.operands.push_back(loads ? memory : value);
  return made;
}

void BodyParser::move_parameter(std::string_view name, const Variable &variable) {
  Operand value;
  value.kind = Operand::Kind::reg;
  value.index = parameter_registers_.at(&variable);
  body_.instructions.push_back(move(name, variable.type, variable, value));
}

void BodyParser::return_registers() {
  for (const Variable &variable : function_.returns)
    if (variable.is_register)
      move_parameter("st.param", variable);
}

// Puts what is in registers or is a number into .param variables of this call's own. `after` receives
// the loads of results.
void BodyParser::pass_registers(const Instruction &call, std::vector<Instruction> &after) {
  size_t at = call.first_operand, end = at + call.operand_count;
  auto kind = [&](size_t operand) { return body_.operands[operand].kind; };
  size_t results = end, arguments = end;
  if (at < end && kind(at) == Operand::Kind::arguments)
    results = at++;
  if (at == end)
    return;
  const Function *callee =
      kind(at) == Operand::Kind::symbol ? body_.symbols[body_.operands[at].index].function : nullptr;
  ++at;
  if (at < end && kind(at) == Operand::Kind::arguments)
    arguments = at;
  auto pass = [&](size_t list, const std::deque<Variable> *declared, bool is_result) {
    if (list == end)
      return;
    for (uint32_t k = 0; k < body_.operands[list].count; ++k) {
      size_t place = body_.operands[list].index + k;
      Operand value = body_.operands[place];
      bool is_register = value.kind == Operand::Kind::reg;
      bool is_number = value.kind == Operand::Kind::integer || value.kind == Operand::Kind::real32 ||
                       value.kind == Operand::Kind::real64;
      if (is_result && value.kind == Operand::Kind::sink && declared && k < declared->size())
        is_register = true; // the callee writes it, and nobody reads it
      if (!is_register && (!is_number || is_result))
        continue;
      Variable variable;
      variable.space = Space::parameter;
      if (declared && k < declared->size())
        variable.type = (*declared)[k].type;
      else if (value.kind == Operand::Kind::reg)
        variable.type = body_.registers[value.index];
      else
        lexer_.fail("a number as the argument of a call whose function is not known");
      variable.size_bytes = variable.alignment_bytes = size_bytes(variable.type);
      if (declared && k < declared->size() && (*declared)[k].size_bytes != variable.size_bytes)
        lexer_.fail("a register or a number as the argument for an array");
      if (body_.variables.size() >= most_variables)
        lexer_.fail("more than " + std::to_string(most_variables) + " variables in a function");
      body_.variables.push_back(variable);
      const Variable &kept = body_.variables.back();
      if (value.kind != Operand::Kind::sink) {
        Instruction moved = move(is_result ? "ld.param" : "st.param", kept.type, kept, value);
        moved.guard = call.guard;
        moved.guard_negated = call.guard_negated;
        if (is_result)
          after.push_back(moved);
        else
          body_.instructions.push_back(moved);
      }
      Operand passed;
      passed.kind = Operand::Kind::symbol;
      passed.index = symbol({const_cast<Variable *>(&kept), nullptr});
      body_.operands[place] = passed;
    }
  };
  pass(results, callee ? &callee->returns : nullptr, true);
  pass(arguments, callee ? &callee->parameters : nullptr, false);
}

} // namespace emulator::ptx
