// The code of a program, of its functions one after the other.
#pragma once

#include <vector>

#include "exec/lowered/lowered.hpp"

namespace emulator {

class Assembler {
public:
  // `stepwise`: handlers return after each instruction. `watch_numbers`: what Lowered::watched says is done.
  Assembler(const ValueTable &values, bool stepwise, bool watch_numbers, Program &program);
  // `blocks` and `tables` are those of `function`, whose values have their places.
  void add(FunctionCode &code, const LoweredFunction &function, const std::vector<BasicBlock> &blocks,
           const std::vector<std::vector<uint32_t>> &tables);
  // After all functions: only now does the code stay where it is, and instructions can point at each other.
  void link();

private:
  // Lets what the instruction makes be looked at.
  void watch(size_t index, const WatchedNumbers &numbers);
  size_t append(const Instruction &instruction, const ptx::SourceLine &source);
  // Lets `instruction` account for what has been counted so far.
  void close_account(Instruction &instruction, uint32_t &count, Account &classes);
  void account(uint32_t &count, Account &classes, const ptx::SourceLine &source);
  void fill(Instruction &instruction, const Lowered &lowered);

  const ValueTable &values_;
  const bool stepwise_, watches_numbers_;
  Program &program_;
  std::vector<std::vector<size_t>> tables_; // positions in Program::code
};

} // namespace emulator
