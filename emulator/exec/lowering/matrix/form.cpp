#include "exec/lowering/matrix/form.hpp"

#include <algorithm>

namespace emulator {

using ptx::Type;

Type sum_type(std::string_view name) {
  Type type = ptx::type_from_name(name);
  return type == Type::f16 || type == Type::f32 || type == Type::s32 || type == Type::f64 ? type : Type::none;
}

bool take_shape(Opcode &opcode, MatrixForm &form) {
  for (auto modifier = opcode.modifiers.begin(); modifier != opcode.modifiers.end(); ++modifier) {
    uint32_t *next[] = {&form.m, &form.n, &form.k};
    size_t at = 0, part = 0;
    for (; part < 3 && at < modifier->size() && (*modifier)[at] == "mnk"[part]; ++part) {
      uint32_t number = 0;
      for (++at; at < modifier->size() && (*modifier)[at] >= '0' && (*modifier)[at] <= '9' && number < 1000;
           ++at)
        number = 10 * number + static_cast<uint32_t>((*modifier)[at] - '0');
      *next[part] = number;
    }
    if (part != 3 || at != modifier->size())
      continue;
    opcode.modifiers.erase(modifier);
    return true;
  }
  return false;
}

namespace {
bool has_size(const MatrixForm &form, uint32_t m, uint32_t n) { return form.m == m && form.n == n; }
} // namespace

// Rows of A are 128 or 256 bits, those of .f64 up to 1024.
bool is_mma_shape(const MatrixForm &form) {
  uint32_t bits = form.k * bits_of_element(form.a_element);
  if (form.n != 8 || bits_of_element(form.b_element) != bits_of_element(form.a_element))
    return false;
  bool whole = form.a_element >= MatrixElement::s8;
  if (form.a_element == MatrixElement::f64)
    return (form.m == 8 || form.m == 16) && (bits == 256 || (form.m == 16 && (bits == 512 || bits == 1024)));
  return (form.m == 16 && (bits == 128 || bits == 256)) || (form.m == 8 && whole && bits == 128);
}

bool is_wmma_shape(const MatrixForm &form) {
  bool wide = has_size(form, 16, 16) || has_size(form, 8, 32) || has_size(form, 32, 8);
  switch (form.a_element) {
  case MatrixElement::f16:
  case MatrixElement::bf16:
  case MatrixElement::s8:
  case MatrixElement::u8:
    return wide && form.k == 16;
  case MatrixElement::tf32:
    return has_size(form, 16, 16) && form.k == 8;
  case MatrixElement::f64:
    return has_size(form, 8, 8) && form.k == 4;
  case MatrixElement::s4:
  case MatrixElement::u4:
    return has_size(form, 8, 8) && form.k == 32;
  case MatrixElement::b1:
    return has_size(form, 8, 8) && form.k == 128;
  default:
    return false;
  }
}

Fragment fragment_of(MatrixRole role, const MatrixForm &form, Type sum, bool wmma) {
  constexpr uint32_t wmma_half_registers = 8; // of A and B, whatever the shape
  uint32_t block_rows = std::min(form.m, 16u);
  if (role == MatrixRole::c)
    return sum == Type::f16 ? make_fragment(form.m, form.n, block_rows, 2, 1)
                            : make_fragment(form.m, form.n, block_rows, 1, 2);
  MatrixElement element = role == MatrixRole::a ? form.a_element : form.b_element;
  uint32_t elements = element == MatrixElement::b1 ? 1 : std::max(1u, 32 / bits_of_element(element));
  uint32_t columns = element == MatrixElement::b1 ? form.k / 32 : form.k;
  uint32_t registers = wmma && element == MatrixElement::f16 ? wmma_half_registers : 0;
  return role == MatrixRole::a ? make_fragment(form.m, columns, block_rows, elements, 1, registers)
                               : make_fragment(form.n, columns, 8, elements, 1, registers);
}

} // namespace emulator
