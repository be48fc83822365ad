// What the PTX ISA calls by name in a body: instructions with the number of their operands, special
// registers.
#pragma once

#include <cstdint>
#include <string_view>

namespace emulator::ptx {

struct OperandCount {
  std::string_view mnemonic;
  uint8_t least, most;
  const char *words;
};

// nullptr for an instruction that this parser does not know.
const OperandCount *find_operand_count(std::string_view opcode);

// Whether an instruction's name of several words ("mul.wide") is or begins with these.
bool is_in_name(std::string_view words);

// Every special register of the PTX ISA, without its component.
bool is_special(std::string_view name);

} // namespace emulator::ptx
