#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/program/program.hpp"

namespace emulator {

// An opcode taken apart: "add.rn.ftz.f32" -> add; {rn, ftz, f32}.
struct Opcode {
  std::string_view mnemonic;
  std::vector<std::string_view> modifiers;

  explicit Opcode(std::string_view text);
  bool has(std::string_view modifier) const;
  bool remove(std::string_view modifier); // true when it was there
  // A rounding mode is a flag. Those to integers (.rni) are not: they belong to cvt alone.
  Rounding take_rounding();
  ptx::Type last_type() const;
  std::string form() const; // what is left, joined with dots
};

// What an instruction counts as; from its opcode alone.
InstructionClass class_of(const Opcode &opcode);

} // namespace emulator
