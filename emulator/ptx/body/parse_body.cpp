// The inside of a function: scopes, registers, labels, instructions.
#include <utility>

#include "ptx/body/known_names.hpp"
#include "ptx/body/parser.hpp"

namespace emulator::ptx {

namespace {

constexpr uint32_t most_registers = 1u << 20;
constexpr uint32_t deepest_scope = 256;
constexpr uint32_t no_table = UINT32_MAX - 1;
const std::string too_many_registers =
    "more than " + std::to_string(most_registers) + " registers in a function";

} // namespace

void BodyParser::parse() {
  enter();
  for (const std::deque<Variable> *list : {&function_.returns, &function_.parameters})
    for (const Variable &variable : *list) {
      if (variable.is_register)
        register_parameter(variable);
      else
        scopes_.back().variables[variable.name] = &variable;
    }
  for (const Variable &parameter : function_.parameters)
    if (parameter.is_register)
      move_parameter("ld.param", parameter);
  while (!lexer_.at_end())
    statement();
  // After the end of the text, where a function returns too.
  return_registers();
  if (scopes_.size() != 1)
    lexer_.fail_here("'{' is never closed");
  resolve_labels();
  for (const std::vector<uint32_t> &table : body_.tables)
    for (uint32_t label : table)
      if (body_.labels[label].is_table)
        lexer_.fail("'" + std::string(body_.labels[label].name) +
                    "' in .branchtargets is a list, not a label");
}

void BodyParser::enter() {
  if (scopes_.size() >= deepest_scope)
    lexer_.fail("scopes nested deeper than " + std::to_string(deepest_scope));
  scope_parents_.push_back(scopes_.empty() ? UINT32_MAX : scopes_.back().id);
  label_maps_.emplace_back();
  scopes_.push_back({static_cast<uint32_t>(scope_parents_.size() - 1), {}, {}});
}

void BodyParser::statement() {
  if (lexer_.accept(';'))
    return;
  if (lexer_.accept('{')) {
    enter();
    return;
  }
  if (lexer_.accept('}')) {
    if (scopes_.size() == 1)
      lexer_.fail_here("'}' without '{'");
    scopes_.pop_back();
    return;
  }
  if (lexer_.peek() == '.') {
    directive(lexer_.directive());
    return;
  }
  Instruction instruction;
  if (lexer_.accept('@')) {
    instruction.guard_negated = lexer_.accept('!');
    uint32_t found = 0;
    std::string_view name = lexer_.name();
    if (!find_scalar(name, found) || body_.registers[found] != Type::pred)
      lexer_.fail(name.empty() ? "expected a predicate after '@'"
                               : "'" + std::string(name) + "' after '@' is no predicate register");
    instruction.guard = static_cast<int32_t>(found);
  }
  instruction.source = location_;
  lexer_.peek();
  instruction.source.ptx_line = lexer_.line();
  size_t opcode_position = lexer_.position();
  std::string_view opcode = lexer_.opcode(body_.joined, is_in_name);
  if (opcode.empty())
    lexer_.fail("expected an instruction");
  if (instruction.guard < 0 && lexer_.accept(':')) {
    label(opcode, opcode_position);
    return;
  }
  instruction.opcode = opcode_ = opcode;
  instruction.used_bytes = std::exchange(used_bytes_, UINT32_MAX);
  size_t first = pending_.size();
  std::string_view mnemonic = opcode.substr(0, opcode.find('.'));
  if (mnemonic == "ret")
    return_registers();
  const OperandCount *expected = find_operand_count(opcode);
  labels_may_be_missing_ = expected == nullptr;
  Lexer after_opcode = lexer_;
  try {
    operands();
  } catch (const SyntaxError &) {
    if (expected)
      throw;
    pending_.resize(first);
    lexer_.go_to(after_opcode);
    lexer_.skip_past(';');
  }
  instruction.first_operand = static_cast<uint32_t>(body_.operands.size());
  instruction.operand_count = static_cast<uint32_t>(pending_.size() - first);
  if (expected && (instruction.operand_count < expected->least || instruction.operand_count > expected->most))
    lexer_.fail_at(opcode_position, std::string(opcode) + " with " +
                                        std::to_string(instruction.operand_count) + " operands; it takes " +
                                        expected->words);
  body_.operands.insert(body_.operands.end(), pending_.begin() + static_cast<std::ptrdiff_t>(first),
                        pending_.end());
  pending_.resize(first);
  std::vector<Instruction> after;
  if (mnemonic == "call")
    pass_registers(instruction, after);
  body_.instructions.push_back(instruction);
  body_.instructions.insert(body_.instructions.end(), after.begin(), after.end());
}

void BodyParser::define_label(std::string_view name, size_t position, uint32_t target, bool is_table) {
  if (!label_maps_[scopes_.back().id].insert({name, {target, is_table}}).second)
    lexer_.fail_at(position, "the label '" + std::string(name) + "' is defined twice");
}

void BodyParser::label(std::string_view name, size_t position) {
  auto here = static_cast<uint32_t>(body_.instructions.size());
  if (lexer_.peek() != '.') {
    define_label(name, position, here, false);
    return;
  }
  // A label in front of .branchtargets or .callprototype names that list instead of a place.
  std::string_view word = lexer_.directive();
  if (word == "branchtargets") {
    std::vector<uint32_t> table;
    do {
      labels_may_be_missing_ = false;
      std::string_view target = lexer_.name();
      if (target.empty())
        lexer_.fail("expected a label in .branchtargets");
      table.push_back(label_reference(target));
    } while (lexer_.accept(','));
    lexer_.expect(';', "after .branchtargets");
    define_label(name, position, static_cast<uint32_t>(body_.tables.size()), true);
    body_.tables.push_back(std::move(table));
  } else if (word == "callprototype" || word == "calltargets") {
    lexer_.skip_past(';');
    // Its position is no table's: what names it is an operand of a call, which needs none.
    define_label(name, position, no_table, true);
  } else {
    define_label(name, position, here, false);
    directive(word);
  }
}

void BodyParser::directive(std::string_view word) {
  Space space;
  if (word == "reg") {
    registers();
  } else if (word == "loc") {
    parse_location(lexer_, location_);
  } else if (word == "pragma") {
    used_bytes_ = parse_pragma(lexer_);
  } else if (word == "file") {
    // Rare inside a body, and known then to nobody outside of it.
    lexer_.number(), lexer_.string();
    while (lexer_.accept(','))
      lexer_.number();
  } else if (space_from_directive(word, space)) {
    size_t first = body_.variables.size();
    if (space == Space::global || space == Space::constant)
      lexer_.fail("variables in ." + std::string(word) + " are declared at module scope only");
    parse_variable_list(lexer_, space, Variable{}, body_.variables);
    for (size_t v = first; v < body_.variables.size(); ++v)
      if (!scopes_.back().variables.insert({body_.variables[v].name, &body_.variables[v]}).second)
        lexer_.fail("'" + std::string(body_.variables[v].name) + "' is declared twice in one scope");
    if (body_.variables.size() > most_variables)
      lexer_.fail("more than " + std::to_string(most_variables) + " variables in a function");
  } else {
    lexer_.fail("unknown directive '." + std::string(word) + "' in a function");
  }
}

void BodyParser::registers() {
  std::string_view word = lexer_.directive();
  uint32_t width = 1;
  if (word == "v2" || word == "v4") {
    width = static_cast<uint32_t>(word[1] - '0');
    word = lexer_.directive();
  }
  Type type = type_from_name(word);
  if (type == Type::none)
    lexer_.fail("unknown register type '." + std::string(word) + "'");
  if (width > 1 && (type == Type::pred || size_bytes(type) * width > 16))
    lexer_.fail("a vector register of " + std::to_string(width) + " elements of type ." + std::string(word));
  do {
    std::string_view name = lexer_.name();
    if (name.empty())
      lexer_.fail("expected the name of a register");
    size_t position = lexer_.position() - name.size();
    uint32_t count = 0;
    if (lexer_.accept('<')) {
      uint64_t number = lexer_.number().bits;
      if (number > most_registers)
        lexer_.fail(too_many_registers);
      count = static_cast<uint32_t>(number);
      lexer_.expect('>', "after the number of registers");
    }
    uint32_t first = static_cast<uint32_t>(body_.registers.size());
    auto &names = count ? scopes_.back().ranges : scopes_.back().registers;
    if (!names.insert({name, {type, first, count, width}}).second)
      lexer_.fail_at(position, "the register '" + std::string(name) + "' is declared twice in one scope");
    if (first + uint64_t{count} * width > most_registers)
      lexer_.fail(too_many_registers);
    body_.registers.resize(first + (count ? count : 1) * width, type);
  } while (lexer_.accept(','));
  lexer_.expect(';', "after .reg");
}

void BodyParser::resolve_labels() {
  for (size_t l = 0; l < body_.labels.size(); ++l) {
    LabelReference &reference = body_.labels[l];
    for (uint32_t scope = reference.scope; scope != UINT32_MAX; scope = scope_parents_[scope]) {
      auto found = label_maps_[scope].find(reference.name);
      if (found != label_maps_[scope].end()) {
        reference.position = found->second.first;
        reference.is_table = found->second.second;
        break;
      }
    }
    if (reference.position == UINT32_MAX && label_positions_[l] != may_be_missing)
      lexer_.fail_at(label_positions_[l], "'" + std::string(reference.name) + "' is not defined");
  }
}

std::unique_ptr<Body> parse_body(const Module &module, const Function &function) {
  auto body = std::make_unique<Body>();
  BodyParser(module, function, *body).parse();
  return body;
}

} // namespace emulator::ptx
