// The inside of a function: scopes, registers, labels, instructions.
#include "ptx/declarations.hpp"

namespace emulator::ptx {

namespace {

constexpr uint32_t most_registers = 1u << 20;
constexpr uint32_t deepest_scope = 256;
constexpr int deepest_operand = 4;

struct RegisterRange {
  Type type;
  uint32_t first;
  uint32_t count; // 0: a single name without a number
};

struct Scope {
  uint32_t id;
  std::unordered_map<std::string_view, RegisterRange> registers;
  std::unordered_map<std::string_view, const Variable *> variables;
};

class BodyParser {
public:
  BodyParser(const Module &module, const Function &function, Body &body)
      : module_(module), function_(function), body_(body), lexer_(function.text, function.text_line) {}

  void parse() {
    enter();
    for (const std::deque<Variable> *list : {&function_.returns, &function_.parameters})
      for (const Variable &variable : *list) {
        if (variable.is_register)
          lexer_.fail("parameters in registers (.reg) are not supported; use .param");
        scopes_.back().variables[variable.name] = &variable;
      }
    while (!lexer_.at_end())
      statement();
    if (scopes_.size() != 1)
      lexer_.fail("'{' is never closed");
    resolve_labels();
    for (const std::vector<uint32_t> &table : body_.tables)
      for (uint32_t label : table)
        if (body_.labels[label].is_table)
          lexer_.fail("a list of branch targets that names a list");
  }

private:
  void enter() {
    if (scopes_.size() >= deepest_scope)
      lexer_.fail("scopes nested deeper than " + std::to_string(deepest_scope));
    scope_parents_.push_back(scopes_.empty() ? UINT32_MAX : scopes_.back().id);
    label_maps_.emplace_back();
    scopes_.push_back({static_cast<uint32_t>(scope_parents_.size() - 1), {}, {}});
  }

  void statement() {
    if (lexer_.accept(';'))
      return;
    if (lexer_.accept('{')) {
      enter();
      return;
    }
    if (lexer_.accept('}')) {
      if (scopes_.size() == 1)
        lexer_.fail("'}' without '{'");
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
      if (!find_register(lexer_.name(), found) || body_.registers[found] != Type::pred)
        lexer_.fail("expected a predicate behind '@'");
      instruction.guard = static_cast<int32_t>(found);
    }
    instruction.source = location_;
    lexer_.peek();
    instruction.source.ptx_line = lexer_.line();
    std::string_view opcode = lexer_.opcode();
    if (opcode.empty())
      lexer_.fail("expected an instruction");
    if (instruction.guard < 0 && lexer_.accept(':')) {
      label(opcode);
      return;
    }
    instruction.opcode = opcode;
    std::vector<Operand> operands;
    if (!lexer_.accept(';')) {
      do
        operands.push_back(operand(0));
      while (lexer_.accept(','));
      lexer_.expect(';', "behind an instruction");
    }
    instruction.first_operand = static_cast<uint32_t>(body_.operands.size());
    instruction.operand_count = static_cast<uint32_t>(operands.size());
    body_.operands.insert(body_.operands.end(), operands.begin(), operands.end());
    body_.instructions.push_back(instruction);
  }

  void label(std::string_view name) {
    // A label in front of .branchtargets or .callprototype names that list instead of a place.
    if (lexer_.peek() == '.') {
      std::string_view word = lexer_.directive();
      if (word == "branchtargets") {
        std::vector<uint32_t> table;
        do
          table.push_back(label_reference(lexer_.name()));
        while (lexer_.accept(','));
        lexer_.expect(';', "behind .branchtargets");
        label_maps_[scopes_.back().id][name] = {static_cast<uint32_t>(body_.tables.size()), true};
        body_.tables.push_back(std::move(table));
        return;
      }
      if (word == "callprototype" || word == "calltargets") {
        lexer_.skip_past(';');
        label_maps_[scopes_.back().id][name] = {0, true};
        return;
      }
      label_maps_[scopes_.back().id][name] = {static_cast<uint32_t>(body_.instructions.size()), false};
      directive(word);
      return;
    }
    if (!label_maps_[scopes_.back().id]
             .insert({name, {static_cast<uint32_t>(body_.instructions.size()), false}})
             .second)
      lexer_.fail("the label '" + std::string(name) + "' is defined twice");
  }

  void directive(std::string_view word) {
    Space space;
    if (word == "reg") {
      registers();
    } else if (word == "loc") {
      location_.file = static_cast<uint32_t>(lexer_.number().bits);
      location_.line = static_cast<uint32_t>(lexer_.number().bits);
      lexer_.number();
      while (lexer_.accept(',')) { // function_name LABEL+4, inlined_at 1 2 3
        lexer_.name();
        while (lexer_.at_number() || lexer_.accept('+') || begins_label())
          lexer_.at_number() ? void(lexer_.number()) : void(lexer_.name());
      }
    } else if (word == "pragma") {
      lexer_.string();
      lexer_.expect(';', "behind .pragma");
    } else if (word == "file") {
      lexer_.number(), lexer_.string();
      while (lexer_.accept(','))
        lexer_.number();
    } else if (space_from_directive(word, space)) {
      size_t first = body_.variables.size();
      parse_variable_list(lexer_, space, Variable{}, body_.variables);
      for (size_t v = first; v < body_.variables.size(); ++v)
        scopes_.back().variables[body_.variables[v].name] = &body_.variables[v];
    } else {
      lexer_.fail("unknown directive '." + std::string(word) + "' in a function");
    }
  }

  bool begins_label() { return lexer_.peek() == '$'; }

  void registers() {
    std::string_view word = lexer_.directive();
    if (word == "v2" || word == "v4")
      lexer_.fail("vector registers are not supported");
    Type type = type_from_name(word);
    if (type == Type::none)
      lexer_.fail("unknown register type '." + std::string(word) + "'");
    do {
      std::string_view name = lexer_.name();
      if (name.empty())
        lexer_.fail("expected the name of a register");
      uint32_t count = 0;
      if (lexer_.accept('<')) {
        uint64_t number = lexer_.number().bits;
        if (number > most_registers)
          lexer_.fail("too many registers");
        count = static_cast<uint32_t>(number);
        lexer_.expect('>', "behind the number of registers");
      }
      uint32_t first = static_cast<uint32_t>(body_.registers.size());
      scopes_.back().registers[name] = {type, first, count};
      body_.registers.resize(first + (count ? count : 1), type);
      if (body_.registers.size() > most_registers)
        lexer_.fail("too many registers");
    } while (lexer_.accept(','));
    lexer_.expect(';', "behind .reg");
  }

  bool find_register(std::string_view name, uint32_t &index) const {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
      --digits;
    bool numbered = digits < name.size() && digits > 0 && name.size() - digits < 9;
    uint64_t number = 0;
    for (char c : name.substr(digits))
      number = number * 10 + static_cast<uint64_t>(c - '0');
    for (size_t s = scopes_.size(); s-- > 0;) {
      const auto &registers = scopes_[s].registers;
      auto found = registers.find(name);
      if (found != registers.end() && found->second.count == 0) {
        index = found->second.first;
        return true;
      }
      if (numbered && (found = registers.find(name.substr(0, digits))) != registers.end() &&
          number < found->second.count) {
        index = found->second.first + static_cast<uint32_t>(number);
        return true;
      }
    }
    return false;
  }

  uint32_t symbol(Symbol symbol) {
    const void *key = symbol.variable ? static_cast<const void *>(symbol.variable) : symbol.function;
    auto [entry, is_new] = symbol_index_.insert({key, static_cast<uint32_t>(body_.symbols.size())});
    if (is_new)
      body_.symbols.push_back(symbol);
    return entry->second;
  }

  bool find_symbol(std::string_view name, uint32_t &index) {
    for (size_t s = scopes_.size(); s-- > 0;) {
      auto found = scopes_[s].variables.find(name);
      if (found != scopes_[s].variables.end()) {
        index = symbol({found->second, nullptr});
        return true;
      }
    }
    auto variable = module_.variable_by_name.find(name);
    if (variable != module_.variable_by_name.end()) {
      index = symbol({variable->second, nullptr});
      return true;
    }
    auto function = module_.function_by_name.find(name);
    if (function != module_.function_by_name.end()) {
      index = symbol({nullptr, function->second});
      return true;
    }
    return false;
  }

  uint32_t label_reference(std::string_view name) {
    body_.labels.push_back({name, scopes_.back().id, UINT32_MAX, false});
    label_lines_.push_back(lexer_.line());
    return static_cast<uint32_t>(body_.labels.size() - 1);
  }

  int64_t addend() {
    if (lexer_.accept('+'))
      return static_cast<int64_t>(lexer_.number().bits);
    if (lexer_.peek() == '-')
      return static_cast<int64_t>(lexer_.number().bits);
    return 0;
  }

  Operand operand(int depth) {
    if (depth > deepest_operand)
      lexer_.fail("operands nested too deeply");
    Operand result;
    if (lexer_.accept('!')) {
      result = operand(depth + 1);
      result.negated = !result.negated;
      return result;
    }
    if (lexer_.accept('{'))
      return list(Operand::Kind::vector, '}', depth);
    if (lexer_.accept('('))
      return list(Operand::Kind::arguments, ')', depth);
    if (lexer_.accept('[')) {
      Operand base = operand(depth + 1);
      result.kind = Operand::Kind::memory;
      if (lexer_.peek() == ',') {
        // [texture, sampler, {coordinates}]: kept without a base; no supported instruction takes it.
        while (lexer_.accept(','))
          operand(depth + 1);
        lexer_.expect(']', "behind an address");
        return result;
      }
      result.base = base.kind;
      result.index = base.index;
      result.value = base.value + addend();
      if (base.kind != Operand::Kind::reg && base.kind != Operand::Kind::symbol &&
          base.kind != Operand::Kind::integer)
        lexer_.fail("expected a register, a variable or a number between '[' and ']'");
      lexer_.expect(']', "behind an address");
      return result;
    }
    if (lexer_.at_number()) {
      Number number = lexer_.number();
      result.kind = number.kind == Number::Kind::integer  ? Operand::Kind::integer
                    : number.kind == Number::Kind::real32 ? Operand::Kind::real32
                                                          : Operand::Kind::real64;
      result.value = static_cast<int64_t>(number.bits);
      return result;
    }
    if (lexer_.accept('-')) {
      result = operand(depth + 1);
      if (result.kind != Operand::Kind::integer)
        lexer_.fail("expected a number behind '-'");
      result.value = static_cast<int64_t>(-static_cast<uint64_t>(result.value));
      return result;
    }
    std::string_view name = lexer_.name();
    if (name.empty())
      lexer_.fail("expected an operand");
    result = named(name);
    if (lexer_.accept('|')) {
      Operand second = named(lexer_.name());
      Operand pair;
      pair.kind = Operand::Kind::pair;
      pair.index = static_cast<uint32_t>(body_.operands.size());
      pair.count = 2;
      body_.operands.push_back(result);
      body_.operands.push_back(second);
      return pair;
    }
    return result;
  }

  Operand named(std::string_view name) {
    Operand result;
    if (name == "_") {
      result.kind = Operand::Kind::sink;
    } else if (name == "WARP_SZ") {
      result.kind = Operand::Kind::integer;
      result.value = 32;
    } else if (find_register(name, result.index)) {
      result.kind = Operand::Kind::reg;
    } else if (!name.empty() && name[0] == '%') {
      std::string_view component = lexer_.component();
      if (!component.empty())
        name = std::string_view(name.data(), name.size() + 2);
      result.kind = Operand::Kind::special;
      result.index = static_cast<uint32_t>(body_.names.size());
      body_.names.push_back(name);
    } else if (find_symbol(name, result.index)) {
      result.kind = Operand::Kind::symbol;
      result.value = addend();
    } else {
      result.kind = Operand::Kind::label;
      result.index = label_reference(name);
    }
    return result;
  }

  Operand list(Operand::Kind kind, char closing, int depth) {
    std::vector<Operand> elements;
    while (!lexer_.accept(closing)) {
      elements.push_back(operand(depth + 1));
      if (!lexer_.accept(',') && lexer_.peek() != closing)
        lexer_.fail("expected ',' or '" + std::string(1, closing) + "'");
    }
    Operand result;
    result.kind = kind;
    result.index = static_cast<uint32_t>(body_.operands.size());
    result.count = static_cast<uint32_t>(elements.size());
    body_.operands.insert(body_.operands.end(), elements.begin(), elements.end());
    return result;
  }

  void resolve_labels() {
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
      if (reference.position == UINT32_MAX)
        throw SyntaxError("line " + std::to_string(label_lines_[l]) + ": '" + std::string(reference.name) +
                          "' is not defined");
    }
  }

  const Module &module_;
  const Function &function_;
  Body &body_;
  Lexer lexer_;
  SourceLine location_;
  std::vector<Scope> scopes_;
  std::vector<uint32_t> scope_parents_;
  std::vector<std::unordered_map<std::string_view, std::pair<uint32_t, bool>>> label_maps_;
  std::vector<uint32_t> label_lines_;
  std::unordered_map<const void *, uint32_t> symbol_index_;
};

} // namespace

std::unique_ptr<Body> parse_body(const Module &module, const Function &function) {
  auto body = std::make_unique<Body>();
  BodyParser(module, function, *body).parse();
  return body;
}

} // namespace emulator::ptx
