// The table that decoding looks instructions up in: canonical form -> handler and operand types. A canonical
// form is the opcode without what a flag of the instruction or nothing at all depends on: "add.ftz.f32".
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "exec/program/program.hpp"
#include "ptx/syntax/types.hpp"

namespace emulator {

struct Operation {
  Handler handler = nullptr;
  ptx::Type destination = ptx::Type::none;
  ptx::Type sources[4] = {};
  uint8_t source_count = 0;
  int64_t immediate = 0; // copied into the instruction
  // Memory accesses: for one whose addresses an earlier one has found (Instruction::known_slot); may be
  // absent.
  Handler known = nullptr;
};

class OperationTable {
public:
  void add(std::string form, const Operation &operation) { operations_[std::move(form)] = operation; }
  const Operation *find(std::string_view form) const {
    auto found = operations_.find(std::string(form));
    return found == operations_.end() ? nullptr : &found->second;
  }

private:
  std::unordered_map<std::string, Operation> operations_;
};

} // namespace emulator
