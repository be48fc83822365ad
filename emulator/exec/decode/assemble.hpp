// The code of a program, of its functions one after the other.
#pragma once

#include <vector>

#include "exec/lowered/lowered.hpp"

namespace emulator {

class Assembler {
public:
  // `stepwise`: handlers return after each instruction.
  Assembler(const ValueTable &values, bool stepwise, Program &program);
  // `blocks` and `tables` are those of `function`, whose values have their places.
  void add(FunctionCode &code, const LoweredFunction &function, const std::vector<BasicBlock> &blocks,
           const std::vector<std::vector<uint32_t>> &tables);
  // After all functions: only now does the code stay where it is, and instructions can point at each other.
  void link();

private:
  size_t append(const Instruction &instruction, const ptx::SourceLine &source);
  // Lets `instruction` account for what has been counted so far.
  void close_account(Instruction &instruction, uint32_t &count, Account &classes);
  void account(uint32_t &count, Account &classes, const ptx::SourceLine &source);
  void fill(Instruction &instruction, const Lowered &lowered);

  const ValueTable &values_;
  const bool stepwise_;
  Program &program_;
  std::vector<std::vector<size_t>> tables_; // positions in Program::code
};

} // namespace emulator
