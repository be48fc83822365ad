// The operands of an instruction, and what their names stand for.
#include "ptx/body/known_names.hpp"
#include "ptx/body/parser.hpp"
#include "ptx/syntax/expression.hpp"

namespace emulator::ptx {

namespace {
constexpr int deepest_operand = 4;
}

void BodyParser::operands() {
  if (lexer_.accept(';'))
    return;
  do
    pending_.push_back(operand(0));
  while (lexer_.accept(','));
  lexer_.expect(';', "after an instruction");
}

// A register that is no vector.
bool BodyParser::find_scalar(std::string_view name, uint32_t &index) const {
  RegisterName found;
  bool is_scalar = find_register(name, found) && found.width == 1;
  index = found.first;
  return is_scalar;
}

bool BodyParser::find_register(std::string_view name, RegisterName &into) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
    --digits;
  bool numbered = digits < name.size() && digits > 0 && name.size() - digits < 9;
  uint64_t number = 0;
  for (char c : name.substr(digits))
    number = number * 10 + static_cast<uint64_t>(c - '0');
  for (size_t s = scopes_.size(); s-- > 0;) {
    const auto &registers = scopes_[s].registers, &ranges = scopes_[s].ranges;
    auto found = registers.find(name);
    if (found != registers.end()) {
      into = {found->second.first, found->second.width};
      return true;
    }
    if (numbered && (found = ranges.find(name.substr(0, digits))) != ranges.end() &&
        number < found->second.count) {
      uint32_t width = found->second.width;
      into = {found->second.first + static_cast<uint32_t>(number) * width, width};
      return true;
    }
  }
  return false;
}

uint32_t BodyParser::symbol(Symbol symbol) {
  const void *key = symbol.variable ? static_cast<const void *>(symbol.variable) : symbol.function;
  auto [entry, is_new] = symbol_index_.insert({key, static_cast<uint32_t>(body_.symbols.size())});
  if (is_new)
    body_.symbols.push_back(symbol);
  return entry->second;
}

bool BodyParser::find_symbol(std::string_view name, uint32_t &index) {
  for (size_t s = scopes_.size(); s-- > 0;) {
    auto found = scopes_[s].variables.find(name);
    if (found != scopes_[s].variables.end()) {
      index = symbol({const_cast<Variable *>(found->second), nullptr});
      return true;
    }
  }
  auto found = names_.find(name);
  if (found != names_.end()) {
    require_defined(name, found->second.symbol);
    index = symbol(found->second.symbol);
    return true;
  }
  return false;
}

void BodyParser::require_defined(std::string_view name, const Symbol &symbol) const {
  bool defined = symbol.variable ? !symbol.variable->is_extern || symbol.variable->space == Space::shared
                                 : !symbol.function->is_extern;
  if (!defined && !module_.is_provided(name, symbol.function != nullptr))
    lexer_.fail("unresolved: '" + std::string(name) + "' is declared and defined nowhere");
}

uint32_t BodyParser::label_reference(std::string_view name) {
  body_.labels.push_back({name, scopes_.back().id, UINT32_MAX, false});
  label_positions_.push_back(labels_may_be_missing_ ? may_be_missing : lexer_.position() - name.size());
  return static_cast<uint32_t>(body_.labels.size() - 1);
}

int64_t BodyParser::addend() { return lexer_.accept('+') ? integer_expression(lexer_) : 0; }

Operand BodyParser::operand(int depth) {
  if (depth > deepest_operand)
    lexer_.fail("operands nested too deeply");
  Operand result;
  bool is_call = opcode_.substr(0, 4) == "call" && depth == 0;
  if (lexer_.peek() == '(' ? !is_call : at_constant(lexer_)) {
    Lexer begin = lexer_;
    bool negates = lexer_.accept('!') && !at_constant(lexer_);
    lexer_.go_to(begin);
    if (!negates)
      return constant();
  }
  if (lexer_.accept('!')) {
    result = operand(depth + 1);
    result.negated = !result.negated;
    return result;
  }
  if (lexer_.accept('{')) {
    Operand elements = list(Operand::Kind::vector, '}', depth);
    return lexer_.accept('|') ? pair_of(elements, named(lexer_.name())) : elements;
  }
  if (lexer_.accept('('))
    return list(Operand::Kind::arguments, ')', depth);
  if (lexer_.accept('[')) {
    Operand base = operand(depth + 1);
    result.kind = Operand::Kind::memory;
    if (lexer_.peek() == ',') {
      // [texture, sampler, {coordinates}]
      size_t first = pending_.size();
      pending_.push_back(base);
      while (lexer_.accept(','))
        pending_.push_back(operand(depth + 1));
      lexer_.expect(']', "after an address");
      result = gathered(Operand::Kind::memory, first);
      result.base = Operand::Kind::vector;
      return result;
    }
    result.base = base.kind;
    result.index = base.index;
    result.value = base.value + addend();
    if (base.kind == Operand::Kind::label && !labels_may_be_missing_)
      lexer_.fail("'" + std::string(body_.labels[base.index].name) + "' is not defined");
    if (base.kind != Operand::Kind::reg && base.kind != Operand::Kind::symbol &&
        base.kind != Operand::Kind::integer)
      lexer_.fail("expected a register, a variable or a number between '[' and ']'");
    lexer_.expect(']', "after an address");
    return result;
  }
  std::string_view name = lexer_.name();
  if (name.empty())
    lexer_.fail("expected an operand");
  result = named(name);
  if (depth == 0 && result.kind == Operand::Kind::symbol && result.value == 0 && lexer_.accept('['))
    return element_of_array(result.index);
  if (lexer_.accept('|'))
    return pair_of(result, named(lexer_.name()));
  return result;
}

Operand BodyParser::constant() {
  Number number = constant_expression(lexer_);
  Operand result;
  result.kind = number.kind == Number::Kind::integer  ? Operand::Kind::integer
                : number.kind == Number::Kind::real32 ? Operand::Kind::real32
                                                      : Operand::Kind::real64;
  result.value = static_cast<int64_t>(number.bits);
  return result;
}

Operand BodyParser::pair_of(const Operand &one, const Operand &other) {
  Operand pair;
  pair.kind = Operand::Kind::pair;
  pair.index = static_cast<uint32_t>(body_.operands.size());
  pair.count = 2;
  body_.operands.push_back(one);
  body_.operands.push_back(other);
  return pair;
}

Operand BodyParser::named(std::string_view name) {
  Operand result;
  RegisterName reg;
  if (name == "_") {
    result.kind = Operand::Kind::sink;
  } else if (find_register(name, reg)) {
    result = reg.width == 1 ? element_of(reg, 0) : vector_or_component(name, reg);
  } else if (!name.empty() && name[0] == '%') {
    if (!is_special(name))
      lexer_.fail("the register '" + std::string(name) + "' is not declared");
    std::string_view component = lexer_.component();
    if (!component.empty())
      name = body_.joined.emplace_back(name).append(".").append(component);
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

Operand BodyParser::element_of(const RegisterName &reg, uint32_t element) {
  Operand result;
  result.kind = Operand::Kind::reg;
  result.index = reg.first + element;
  return result;
}

// `v` is all elements of a vector register, `v.x` or `v.r` the first.
Operand BodyParser::vector_or_component(std::string_view name, const RegisterName &reg) {
  std::string_view component = lexer_.component();
  if (!component.empty()) {
    size_t element = std::string_view("xyzwrgba").find(component) % 4;
    if (element >= reg.width)
      lexer_.fail("'" + std::string(name) + "' has no component ." + std::string(component));
    return element_of(reg, static_cast<uint32_t>(element));
  }
  Operand result;
  result.kind = Operand::Kind::vector;
  result.index = static_cast<uint32_t>(body_.operands.size());
  result.count = reg.width;
  for (uint32_t element = 0; element < reg.width; ++element)
    body_.operands.push_back(element_of(reg, element));
  return result;
}

Operand BodyParser::list(Operand::Kind kind, char closing, int depth) {
  size_t first = pending_.size();
  while (!lexer_.accept(closing)) {
    pending_.push_back(operand(depth + 1));
    if (!lexer_.accept(',') && lexer_.peek() != closing)
      lexer_.fail_here("expected ',' or '" + std::string(1, closing) + "'");
  }
  return gathered(kind, first);
}

// The pending operands from `first` on, as one.
Operand BodyParser::gathered(Operand::Kind kind, size_t first) {
  Operand result;
  result.kind = kind;
  result.index = static_cast<uint32_t>(body_.operands.size());
  result.count = static_cast<uint32_t>(pending_.size() - first);
  body_.operands.insert(body_.operands.end(), pending_.begin() + static_cast<std::ptrdiff_t>(first),
                        pending_.end());
  pending_.resize(first);
  return result;
}

} // namespace emulator::ptx
