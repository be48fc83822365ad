// Reads the inside of a function: parse_body.cpp what is in it, parse_operands.cpp the operands of an
// instruction, parse_calls.cpp what calls pass in registers.
#pragma once

#include <string>
#include <unordered_map>

#include "ptx/syntax/declarations.hpp"

namespace emulator::ptx {

constexpr size_t most_variables = 1u << 16; // of a function

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
  std::unordered_map<std::string_view, RegisterRange> registers; // `a`
  std::unordered_map<std::string_view, RegisterRange> ranges;    // `a<2>`, which is a0 and a1, not a
  std::unordered_map<std::string_view, const Variable *> variables;
};

class BodyParser {
public:
  BodyParser(const Module &module, const Function &function, Body &body)
      : module_(module), names_(module.texts[function.text_index].names), function_(function), body_(body),
        lexer_(module.texts[function.text_index], function.text, function.text_line) {
    location_.text = function.text_index;
  }

  void parse();

private:
  // Scopes and statements
  void enter();
  void statement();
  void define_label(std::string_view name, size_t position, uint32_t target, bool is_table);
  void label(std::string_view name, size_t position);
  void directive(std::string_view word);
  void registers();
  void resolve_labels();

  // Parameters in registers
  void register_parameter(const Variable &variable);
  std::string_view move_opcode(std::string_view name, Type type);
  Instruction move(std::string_view name, Type type, const Variable &variable, const Operand &value);
  void move_parameter(std::string_view name, const Variable &variable);
  void return_registers();
  void pass_registers(const Instruction &call, std::vector<Instruction> &after);

  // Operands
  void operands();
  bool find_scalar(std::string_view name, uint32_t &index) const;
  bool find_register(std::string_view name, RegisterName &into) const;
  uint32_t symbol(Symbol symbol);
  bool find_symbol(std::string_view name, uint32_t &index);
  void require_defined(std::string_view name, const Symbol &symbol) const;
  uint32_t label_reference(std::string_view name);
  int64_t addend();
  Operand operand(int depth);
  Operand constant();
  Operand pair_of(const Operand &one, const Operand &other);
  Operand named(std::string_view name);
  static Operand element_of(const RegisterName &reg, uint32_t element);
  Operand vector_or_component(std::string_view name, const RegisterName &reg);
  // array_elements.cpp
  Operand element_of_array(uint32_t symbol);
  Operand computed_element(const Variable &array, uint32_t symbol, Operand index, uint32_t addend);
  Operand made(std::string_view opcode, Type type, const std::vector<Operand> &from);

  Operand list(Operand::Kind kind, char closing, int depth);
  Operand gathered(Operand::Kind kind, size_t first);

  const Module &module_;
  const Names &names_;
  const Function &function_;
  Body &body_;
  Lexer lexer_;
  SourceLine location_;
  uint32_t used_bytes_ = UINT32_MAX; // of the next instruction
  std::vector<Scope> scopes_;
  std::vector<uint32_t> scope_parents_;
  std::vector<std::unordered_map<std::string_view, std::pair<uint32_t, bool>>> label_maps_;
  // Of references. An instruction that is not known may name what is no label, such as a texture.
  static constexpr size_t may_be_missing = ~size_t{0};
  std::vector<size_t> label_positions_;
  bool labels_may_be_missing_ = false;
  std::string_view opcode_;      // of the instruction whose operands are read
  std::vector<Operand> pending_; // of the instruction that is being read
  std::unordered_map<const Variable *, uint32_t> parameter_registers_;
  std::unordered_map<const void *, uint32_t> symbol_index_;
};

} // namespace emulator::ptx
