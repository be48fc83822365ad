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

// Elements of 6 and 4 bits, which mma has where the kind says so.
static bool is_narrowest(MatrixElement element) {
  return element >= MatrixElement::e3m2 && element <= MatrixElement::packed_e2m1;
}

bool take_kind(Opcode &opcode, MatrixForm &form, MatrixKinds &kinds) {
  kinds.bytes = opcode.remove("kind::f8f6f4");
  bool bytes = opcode.remove("kind::mxf8f6f4"), mx = opcode.remove("kind::mxf4"),
       nv = opcode.remove("kind::mxf4nvf4");
  kinds.bytes |= bytes;
  kinds.packed = mx || nv;
  form.sparse = opcode.remove("sp") || opcode.remove("sp::ordered_metadata");
  if (opcode.remove("block_scale") != (bytes || kinds.packed))
    return false;
  if (!bytes && !kinds.packed)
    return true;
  form.scales = opcode.remove("scale_vec::1X")   ? 1
                : opcode.remove("scale_vec::2X") ? 2
                : opcode.remove("scale_vec::4X") ? 4
                : bytes                          ? 1
                : mx                             ? 2
                                                 : 0;
  bool quarter = !opcode.modifiers.empty() && opcode.modifiers.back() == "ue4m3";
  if (!quarter && (opcode.modifiers.empty() || opcode.modifiers.back() != "ue8m0"))
    return false;
  opcode.modifiers.pop_back();
  form.scale = quarter ? MatrixScale::ue4m3 : MatrixScale::ue8m0;
  return nv ? form.scales == 4 || (form.scales == 2 && !quarter) : form.scales == (bytes ? 1 : 2) && !quarter;
}

bool set_elements(MatrixForm &form, const MatrixKinds &kinds, std::string_view a, std::string_view b) {
  if (!find_element(a, form.a_element) || !find_element(b, form.b_element))
    return false;
  bool narrow = form.a_element >= MatrixElement::e4m3 && form.a_element <= MatrixElement::e2m1;
  if (kinds.packed) {
    if (form.a_element != MatrixElement::e2m1 || form.b_element != MatrixElement::e2m1)
      return false;
    form.a_element = form.b_element = MatrixElement::packed_e2m1;
  }
  return kinds.bytes ? narrow
                     : kinds.packed || !(is_narrowest(form.a_element) || is_narrowest(form.b_element));
}

namespace {
bool has_size(const MatrixForm &form, uint32_t m, uint32_t n) { return form.m == m && form.n == n; }
} // namespace

// Rows of A hold 128 or 256 bits, those of .f64 up to 1024.
bool is_mma_shape(const MatrixForm &form, const MatrixKinds &kinds) {
  uint32_t bits = form.held_k() * bits_of_element(form.a_element);
  if (form.n != 8 || bits_of_element(form.b_element) != bits_of_element(form.a_element))
    return false;
  bool whole = form.a_element >= MatrixElement::s8;
  if (form.sparse &&
      (form.m != 16 || form.a_element == MatrixElement::f64 || form.a_element == MatrixElement::b1))
    return false;
  if (form.a_element == MatrixElement::f64)
    return (form.m == 8 || form.m == 16) && (bits == 256 || (form.m == 16 && (bits == 512 || bits == 1024)));
  bool floats = form.a_element >= MatrixElement::e4m3 && form.a_element <= MatrixElement::e2m1;
  bool wide_only = kinds.packed || form.scale != MatrixScale::none || (form.sparse && floats) ||
                   is_narrowest(form.a_element) || is_narrowest(form.b_element);
  return (form.m == 16 && (bits == 256 || (bits == 128 && !wide_only))) ||
         (form.m == 8 && whole && bits == 128);
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
  uint32_t columns = role == MatrixRole::a ? form.held_k() : form.k;
  columns /= element == MatrixElement::b1 ? 32 : 1;
  uint32_t registers = wmma && element == MatrixElement::f16 ? wmma_half_registers : 0;
  return role == MatrixRole::a ? make_fragment(form.m, columns, block_rows, elements, 1, registers)
                               : make_fragment(form.n, columns, 8, elements, 1, registers);
}

} // namespace emulator
