// The inside of a function: scopes, registers, labels, instructions.
#include <algorithm>
#include <unordered_set>

#include "ptx/declarations.hpp"

namespace emulator::ptx {

namespace {

constexpr uint32_t most_registers = 1u << 20;
constexpr uint32_t deepest_scope = 256;
constexpr int deepest_operand = 4;
constexpr size_t most_variables = 1u << 16;
constexpr uint32_t no_table = UINT32_MAX - 1;
const std::string too_many_registers =
    "more than " + std::to_string(most_registers) + " registers in a function";

struct OperandCount {
  std::string_view mnemonic;
  uint8_t least, most;
  const char *words;
};

// Instructions whose number of operands does not depend on their form, or only between bounds. An instruction
// that is not listed may have operands of any form: the executor refuses the kernel at its launch if it lacks
// it.
constexpr OperandCount operand_counts[] = {
    {"abs", 2, 2, "2"},       {"add", 3, 3, "3"},        {"addc", 3, 3, "3"},      {"and", 3, 3, "3"},
    {"bfe", 4, 4, "4"},       {"bfi", 5, 5, "5"},        {"bfind", 2, 2, "2"},     {"bmsk", 3, 3, "3"},
    {"bra", 1, 1, "1"},       {"brev", 2, 2, "2"},       {"brx", 2, 2, "2"},       {"clz", 2, 2, "2"},
    {"cnot", 2, 2, "2"},      {"copysign", 3, 3, "3"},   {"cos", 2, 2, "2"},       {"cvta", 2, 2, "2"},
    {"cvt", 2, 4, "2 to 4"},  {"div", 3, 3, "3"},        {"ex2", 2, 2, "2"},       {"exit", 0, 0, "none"},
    {"fma", 4, 4, "4"},       {"isspacep", 2, 2, "2"},   {"ld", 2, 3, "2 or 3"},   {"lg2", 2, 2, "2"},
    {"lop3", 5, 7, "5 to 7"}, {"mad", 4, 4, "4"},        {"madc", 4, 4, "4"},      {"mad24", 4, 4, "4"},
    {"max", 3, 4, "3 or 4"},  {"min", 3, 4, "3 or 4"},   {"mov", 2, 2, "2"},       {"mul", 3, 3, "3"},
    {"mul24", 3, 3, "3"},     {"nanosleep", 1, 1, "1"},  {"neg", 2, 2, "2"},       {"not", 2, 2, "2"},
    {"or", 3, 3, "3"},        {"popc", 2, 2, "2"},       {"prmt", 4, 4, "4"},      {"rcp", 2, 2, "2"},
    {"rem", 3, 3, "3"},       {"ret", 0, 0, "none"},     {"rsqrt", 2, 2, "2"},     {"sad", 4, 4, "4"},
    {"selp", 4, 4, "4"},      {"set", 3, 4, "3 or 4"},   {"setp", 3, 4, "3 or 4"}, {"shf", 4, 4, "4"},
    {"shl", 3, 3, "3"},       {"shr", 3, 3, "3"},        {"sin", 2, 2, "2"},       {"slct", 4, 4, "4"},
    {"sqrt", 2, 2, "2"},      {"st", 2, 3, "2 or 3"},    {"sub", 3, 3, "3"},       {"subc", 3, 3, "3"},
    {"szext", 3, 3, "3"},     {"tanh", 2, 2, "2"},       {"testp", 2, 2, "2"},     {"trap", 0, 0, "none"},
    {"xor", 3, 3, "3"},       {"atom", 2, 5, "2 to 5"},  {"red", 2, 4, "2 to 4"},  {"call", 1, 4, "1 to 4"},
    {"bar", 1, 4, "1 to 4"},  {"shfl", 4, 5, "4 or 5"},  {"vote", 2, 3, "2 or 3"}, {"match", 3, 3, "3"},
    {"redux", 3, 3, "3"},     {"activemask", 1, 1, "1"},
};

// nullptr for an instruction that this parser does not know.
const OperandCount *find_operand_count(std::string_view opcode) {
  static const auto *table = [] {
    auto *built = new std::unordered_map<std::string_view, const OperandCount *>;
    for (const OperandCount &entry : operand_counts)
      (*built)[entry.mnemonic] = &entry;
    return built;
  }();
  auto found = table->find(opcode.substr(0, opcode.find('.')));
  return found == table->end() ? nullptr : found->second;
}

// Every special register of the PTX ISA, without its component.
bool is_special(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"%tid",
                                                             "%ntid",
                                                             "%laneid",
                                                             "%warpid",
                                                             "%nwarpid",
                                                             "%ctaid",
                                                             "%nctaid",
                                                             "%smid",
                                                             "%nsmid",
                                                             "%gridid",
                                                             "%is_explicit_cluster",
                                                             "%clusterid",
                                                             "%nclusterid",
                                                             "%cluster_ctaid",
                                                             "%cluster_nctaid",
                                                             "%cluster_ctarank",
                                                             "%cluster_nctarank",
                                                             "%lanemask_eq",
                                                             "%lanemask_le",
                                                             "%lanemask_lt",
                                                             "%lanemask_ge",
                                                             "%lanemask_gt",
                                                             "%clock",
                                                             "%clock_hi",
                                                             "%clock64",
                                                             "%globaltimer",
                                                             "%globaltimer_lo",
                                                             "%globaltimer_hi",
                                                             "%total_smem_size",
                                                             "%aggr_smem_size",
                                                             "%dynamic_smem_size",
                                                             "%current_graph_exec"};
  static constexpr std::string_view numbered[] = {"%pm", "%envreg", "%reserved_smem_offset_"};
  return names.count(name) != 0 || std::any_of(std::begin(numbered), std::end(numbered), [&](auto prefix) {
           return name.substr(0, prefix.size()) == prefix;
         });
}

struct RegisterRange {
  Type type;
  uint32_t first;
  uint32_t count;     // 0: a single name without a number
  uint32_t width = 1; // elements of a vector (.v2, .v4), which lie side by side
};

// What a name of a register stands for: `width` registers from `first` on.
struct RegisterName {
  uint32_t first = 0;
  uint32_t width = 1;
};

struct Scope {
  uint32_t id;
  std::unordered_map<std::string_view, RegisterRange> registers;
  std::unordered_map<std::string_view, const Variable *> variables;
};

class BodyParser {
public:
  BodyParser(const Module &module, const Function &function, Body &body)
      : module_(module), names_(module.texts[function.text_index].names), function_(function), body_(body),
        lexer_(module.texts[function.text_index], function.text, function.text_line) {
    location_.text = function.text_index;
  }

  void parse() {
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
    // Behind the end of the text, where a function returns too.
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
        lexer_.fail(name.empty() ? "expected a predicate behind '@'"
                                 : "'" + std::string(name) + "' behind '@' is no predicate register");
      instruction.guard = static_cast<int32_t>(found);
    }
    instruction.source = location_;
    lexer_.peek();
    instruction.source.ptx_line = lexer_.line();
    std::string_view opcode = lexer_.opcode();
    if (opcode.empty())
      lexer_.fail("expected an instruction");
    size_t opcode_position = lexer_.position() - opcode.size();
    if (instruction.guard < 0 && lexer_.accept(':')) {
      label(opcode, opcode_position);
      return;
    }
    instruction.opcode = opcode;
    size_t first = pending_.size();
    std::string_view mnemonic = opcode.substr(0, opcode.find('.'));
    if (mnemonic == "ret")
      return_registers();
    const OperandCount *expected = find_operand_count(opcode);
    labels_may_be_missing_ = expected == nullptr;
    Lexer behind_opcode = lexer_;
    try {
      operands();
    } catch (const SyntaxError &) {
      if (expected)
        throw;
      pending_.resize(first);
      lexer_.go_to(behind_opcode);
      lexer_.skip_past(';');
    }
    instruction.first_operand = static_cast<uint32_t>(body_.operands.size());
    instruction.operand_count = static_cast<uint32_t>(pending_.size() - first);
    if (expected &&
        (instruction.operand_count < expected->least || instruction.operand_count > expected->most))
      lexer_.fail_at(opcode_position, std::string(opcode) + " with " +
                                          std::to_string(instruction.operand_count) + " operands; it takes " +
                                          expected->words);
    body_.operands.insert(body_.operands.end(), pending_.begin() + static_cast<std::ptrdiff_t>(first),
                          pending_.end());
    pending_.resize(first);
    std::vector<Instruction> behind;
    if (mnemonic == "call")
      pass_registers(instruction, behind);
    body_.instructions.push_back(instruction);
    body_.instructions.insert(body_.instructions.end(), behind.begin(), behind.end());
  }

  // Parameters in registers (.func (.reg .b32 r) f (.reg .b32 a)) travel as .param variables do: the function
  // begins with loads and ends with stores of them, and a call stores and loads around itself.

  void register_parameter(const Variable &variable) {
    auto first = static_cast<uint32_t>(body_.registers.size());
    body_.registers.push_back(variable.type);
    scopes_.back().registers.insert({variable.name, {variable.type, first, 0}});
    parameter_registers_[&variable] = first;
  }

  // "ld.param.b32" and so on, by the size of the type.
  std::string_view move_opcode(std::string_view name, Type type) {
    static constexpr std::string_view loads[] = {"ld.param.b8", "ld.param.b16", "ld.param.b32",
                                                 "ld.param.b64"};
    static constexpr std::string_view stores[] = {"st.param.b8", "st.param.b16", "st.param.b32",
                                                  "st.param.b64"};
    uint32_t bytes = size_bytes(type);
    if (type == Type::pred || bytes > 8 || bytes == 0)
      lexer_.fail("a parameter in a register of type ." + std::string(name_of(type)) + " is not supported");
    return (name == "ld.param" ? loads : stores)[bytes == 8 ? 3 : bytes == 4 ? 2 : bytes - 1];
  }

  Instruction move(std::string_view name, Type type, const Variable &variable, const Operand &value) {
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

  void move_parameter(std::string_view name, const Variable &variable) {
    Operand value;
    value.kind = Operand::Kind::reg;
    value.index = parameter_registers_.at(&variable);
    body_.instructions.push_back(move(name, variable.type, variable, value));
  }

  void return_registers() {
    for (const Variable &variable : function_.returns)
      if (variable.is_register)
        move_parameter("st.param", variable);
  }

  // Puts what stands in registers or is a number into .param variables of this call's own. `behind` receives
  // the loads of results.
  void pass_registers(const Instruction &call, std::vector<Instruction> &behind) {
    size_t at = call.first_operand, end = at + call.operand_count;
    auto kind = [&](size_t operand) { return body_.operands[operand].kind; };
    size_t results = end, arguments = end;
    if (at < end && kind(at) == Operand::Kind::arguments)
      results = at++;
    if (at == end)
      return;
    const Function *callee =
        kind(at) == Operand::Kind::symbol ? body_.symbols[body_.operands[at].index].function : nullptr;
    if (++at < end && kind(at) == Operand::Kind::arguments)
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
            behind.push_back(moved);
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

  void operands() {
    if (lexer_.accept(';'))
      return;
    do
      pending_.push_back(operand(0));
    while (lexer_.accept(','));
    lexer_.expect(';', "behind an instruction");
  }

  void define_label(std::string_view name, size_t position, uint32_t target, bool is_table) {
    if (!label_maps_[scopes_.back().id].insert({name, {target, is_table}}).second)
      lexer_.fail_at(position, "the label '" + std::string(name) + "' is defined twice");
  }

  void label(std::string_view name, size_t position) {
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
      lexer_.expect(';', "behind .branchtargets");
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

  void directive(std::string_view word) {
    Space space;
    if (word == "reg") {
      registers();
    } else if (word == "loc") {
      parse_location(lexer_, location_);
    } else if (word == "pragma") {
      parse_pragma(lexer_);
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

  void registers() {
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
      lexer_.fail("a vector register of " + std::to_string(width) + " elements of type ." +
                  std::string(word));
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
        lexer_.expect('>', "behind the number of registers");
      }
      uint32_t first = static_cast<uint32_t>(body_.registers.size());
      if (!scopes_.back().registers.insert({name, {type, first, count, width}}).second)
        lexer_.fail_at(position, "the register '" + std::string(name) + "' is declared twice in one scope");
      if (first + uint64_t{count} * width > most_registers)
        lexer_.fail(too_many_registers);
      body_.registers.resize(first + (count ? count : 1) * width, type);
    } while (lexer_.accept(','));
    lexer_.expect(';', "behind .reg");
  }

  // A register that is no vector.
  bool find_scalar(std::string_view name, uint32_t &index) const {
    RegisterName found;
    bool is_scalar = find_register(name, found) && found.width == 1;
    index = found.first;
    return is_scalar;
  }

  bool find_register(std::string_view name, RegisterName &into) const {
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
        into = {found->second.first, found->second.width};
        return true;
      }
      if (numbered && (found = registers.find(name.substr(0, digits))) != registers.end() &&
          number < found->second.count) {
        uint32_t width = found->second.width;
        into = {found->second.first + static_cast<uint32_t>(number) * width, width};
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

  void require_defined(std::string_view name, const Symbol &symbol) const {
    bool defined = symbol.variable ? !symbol.variable->is_extern || symbol.variable->space == Space::shared
                                   : !symbol.function->is_extern;
    if (!defined && !module_.is_provided(name, symbol.function != nullptr))
      lexer_.fail("unresolved: '" + std::string(name) + "' is declared and defined nowhere");
  }

  uint32_t label_reference(std::string_view name) {
    body_.labels.push_back({name, scopes_.back().id, UINT32_MAX, false});
    label_positions_.push_back(labels_may_be_missing_ ? may_be_missing : lexer_.position() - name.size());
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
        lexer_.expect(']', "behind an address");
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
    if (lexer_.accept('|'))
      return pair_of(result, named(lexer_.name()));
    return result;
  }

  Operand pair_of(const Operand &one, const Operand &other) {
    Operand pair;
    pair.kind = Operand::Kind::pair;
    pair.index = static_cast<uint32_t>(body_.operands.size());
    pair.count = 2;
    body_.operands.push_back(one);
    body_.operands.push_back(other);
    return pair;
  }

  Operand named(std::string_view name) {
    Operand result;
    RegisterName reg;
    if (name == "_") {
      result.kind = Operand::Kind::sink;
    } else if (name == "WARP_SZ") {
      result.kind = Operand::Kind::integer;
      result.value = 32;
    } else if (find_register(name, reg)) {
      result = reg.width == 1 ? element_of(reg, 0) : vector_or_component(name, reg);
    } else if (!name.empty() && name[0] == '%') {
      if (!is_special(name))
        lexer_.fail("the register '" + std::string(name) + "' is not declared");
      std::string_view component = lexer_.component();
      if (!component.empty())
        name = std::string_view(name.data(), name.size() + 2);
      result.kind = Operand::Kind::special;
      result.index = static_cast<uint32_t>(body_.names.size());
      body_.names.push_back(name);
    } else if (find_symbol(name, result.index)) {
      result.kind = Operand::Kind::symbol;
      result.value = lexer_.accept('[') ? element_offset(result.index) : addend();
    } else {
      result.kind = Operand::Kind::label;
      result.index = label_reference(name);
    }
    return result;
  }

  static Operand element_of(const RegisterName &reg, uint32_t element) {
    Operand result;
    result.kind = Operand::Kind::reg;
    result.index = reg.first + element;
    return result;
  }

  // `v` is all elements of a vector register, `v.x` or `v.r` the first.
  Operand vector_or_component(std::string_view name, const RegisterName &reg) {
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

  // `array[3]` is the address of that element (PTX ISA, "Arrays as Operands").
  int64_t element_offset(uint32_t symbol) {
    const Variable *variable = body_.symbols[symbol].variable;
    if (variable == nullptr)
      lexer_.fail("a function has no elements");
    Number number = lexer_.number();
    if (number.kind != Number::Kind::integer)
      lexer_.fail("expected a whole number as the index of an element");
    lexer_.expect(']', "behind the index of an element");
    return static_cast<int64_t>(number.bits * size_bytes(variable->type));
  }

  Operand list(Operand::Kind kind, char closing, int depth) {
    size_t first = pending_.size();
    while (!lexer_.accept(closing)) {
      pending_.push_back(operand(depth + 1));
      if (!lexer_.accept(',') && lexer_.peek() != closing)
        lexer_.fail_here("expected ',' or '" + std::string(1, closing) + "'");
    }
    return gathered(kind, first);
  }

  // The pending operands from `first` on, as one.
  Operand gathered(Operand::Kind kind, size_t first) {
    Operand result;
    result.kind = kind;
    result.index = static_cast<uint32_t>(body_.operands.size());
    result.count = static_cast<uint32_t>(pending_.size() - first);
    body_.operands.insert(body_.operands.end(), pending_.begin() + static_cast<std::ptrdiff_t>(first),
                          pending_.end());
    pending_.resize(first);
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
      if (reference.position == UINT32_MAX && label_positions_[l] != may_be_missing)
        lexer_.fail_at(label_positions_[l], "'" + std::string(reference.name) + "' is not defined");
    }
  }

  const Module &module_;
  const Names &names_;
  const Function &function_;
  Body &body_;
  Lexer lexer_;
  SourceLine location_;
  std::vector<Scope> scopes_;
  std::vector<uint32_t> scope_parents_;
  std::vector<std::unordered_map<std::string_view, std::pair<uint32_t, bool>>> label_maps_;
  // Of references. An instruction that is not known may name what is no label, such as a texture.
  static constexpr size_t may_be_missing = ~size_t{0};
  std::vector<size_t> label_positions_;
  bool labels_may_be_missing_ = false;
  std::vector<Operand> pending_; // of the instruction that is being read
  std::unordered_map<const Variable *, uint32_t> parameter_registers_;
  std::unordered_map<const void *, uint32_t> symbol_index_;
};

} // namespace

std::unique_ptr<Body> parse_body(const Module &module, const Function &function) {
  auto body = std::make_unique<Body>();
  BodyParser(module, function, *body).parse();
  return body;
}

} // namespace emulator::ptx
