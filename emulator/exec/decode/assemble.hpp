// The code of a program, of its functions one after the other.
#pragma once

#include <vector>

#include "exec/decode/decode.hpp"
#include "exec/lowered/lowered.hpp"

namespace emulator {

class Assembler {
public:
  Assembler(const ValueTable &values, const CodeForm &form, Program &program);
  // `blocks` and `tables` are those of `function`, whose values have their places.
  void add(FunctionCode &code, const LoweredFunction &function, const std::vector<BasicBlock> &blocks,
           const std::vector<std::vector<uint32_t>> &tables);
  // After all functions: only now does the code stay where it is, and instructions can point at each other.
  void link();

private:
  // Lets what the instruction makes be looked at.
  void watch(size_t index, const WatchedNumbers &numbers);
  void follow_shadow(size_t index, const Lowered &lowered);
  ShadowOperand shadow_operand(uint32_t value) const;
  size_t append(const Instruction &instruction, const ptx::SourceLine &source);
  // Lets `instruction` account for what has been counted so far.
  void close_account(Instruction &instruction, uint32_t &count, Account &classes);
  void account(uint32_t &count, Account &classes, const ptx::SourceLine &source);
  void fill(Instruction &instruction, const Lowered &lowered);

  const ValueTable &values_;
  const CodeForm form_;
  const bool is_watched_;
  Program &program_;
  std::vector<std::vector<size_t>> tables_; // positions in Program::code
};

} // namespace emulator
