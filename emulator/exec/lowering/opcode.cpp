#include "exec/lowering/opcode.hpp"

#include <algorithm>

namespace emulator {

using ptx::Type;

Opcode::Opcode(std::string_view text) {
  size_t dot = text.find('.');
  mnemonic = text.substr(0, dot);
  while (dot != std::string_view::npos) {
    size_t next = text.find('.', dot + 1);
    modifiers.push_back(text.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
}

bool Opcode::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

bool Opcode::remove(std::string_view modifier) {
  auto found = std::find(modifiers.begin(), modifiers.end(), modifier);
  if (found == modifiers.end())
    return false;
  modifiers.erase(found);
  return true;
}

Rounding Opcode::take_rounding() {
  if (remove("rz"))
    return Rounding::zero;
  if (remove("rm"))
    return Rounding::down;
  if (remove("rp"))
    return Rounding::up;
  remove("rn");
  return Rounding::nearest;
}

Type Opcode::last_type() const {
  for (size_t m = modifiers.size(); m-- > 0;)
    if (Type type = ptx::type_from_name(modifiers[m]); type != Type::none)
      return type;
  return Type::none;
}

std::string Opcode::form() const {
  std::string text(mnemonic);
  for (std::string_view modifier : modifiers)
    text.append(".").append(modifier);
  return text;
}

} // namespace emulator
