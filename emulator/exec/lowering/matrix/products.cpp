// mma and wmma.mma.
#include <algorithm>

#include "exec/check/numbers.hpp"
#include "exec/lowering/lowering.hpp"
#include "exec/lowering/matrix/form.hpp"

namespace emulator {

using ptx::Type;

// The rows of a list of registers, or of one register alone.
std::vector<uint32_t> Lowering::fragment_rows(const Operand &list, const Fragment &fragment, Type type,
                                              bool defines) {
  bool vector = list.kind == Kind::vector;
  if ((vector ? list.count : 1u) != fragment.registers)
    unsupported("with a fragment of " + std::to_string(vector ? list.count : 1u) + " registers, not " +
                std::to_string(fragment.registers));
  std::vector<uint32_t> rows;
  for (uint32_t r = 0; r < fragment.registers; ++r) {
    const Operand &one = vector ? element(list, r) : list;
    rows.push_back(defines ? destination(one, type) : source(one, type));
  }
  return rows;
}

void Lowering::emit_product(const MatrixForm &form, const char *name) {
  Type type = form.a_element == MatrixElement::f64 ? Type::b64 : Type::b32;
  std::vector<uint32_t> rows = fragment_rows(operand(0), form.d, type, true);
  size_t results = rows.size();
  auto add = [&](const Operand &list, const Fragment &fragment, bool shared) {
    for (uint32_t row : fragment_rows(list, fragment, shared ? Type::b64 : type, false))
      rows.push_back(row);
  };
  add(operand(1), form.a, form.shared_a);
  add(operand(2), form.b, form.shared_b);
  add(operand(form.of_warpgroup ? 0 : 3), form.c, false);
  size_t next = form.of_warpgroup ? 3 : 4;
  if (form.of_warpgroup)
    rows.push_back(source(operand(form.sparse ? next + 2 : next), Type::pred));
  if (form.sparse) {
    rows.push_back(source(operand(next), Type::b32));
    next += 2;
  }
  for (; form.scale != MatrixScale::none && next < operand_count(); next += 2) {
    const Operand &places = operand(next + 1);
    if (places.kind != Kind::vector || places.count != 2)
      unsupported("without a byte and a thread of its factors");
    const Operand &factors = operand(next);
    bool in_braces = factors.kind == Kind::vector && factors.count == 1;
    rows.push_back(source(in_braces ? element(factors, 0) : factors, Type::b32));
    rows.push_back(source(element(places, 0), Type::u16));
    rows.push_back(source(element(places, 1), Type::u16));
  }
  if (form.of_warpgroup && deferred_)
    for (uint32_t row : rows)
      values_.values[row].kept = values_.values[row].kind == ValueKind::variable &&
                                 values_.values[row].row_bytes == 4 * lanes_per_warp;
  Lowered &lowered = emit(operation(name).handler);
  for (size_t r = 0; r < rows.size(); ++r)
    refer(lowered, Field::list, rows[r], r < results);
  lowered.list = std::move(rows);
  lowered.instruction.immediate = static_cast<int64_t>(program_.matrices.size());
  program_.matrices.push_back(form);
  if (watches_numbers_)
    lowered.watched = watched_numbers(form);
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

// Lanes that are neighbours, by fours: as many of them hold metadata as it fills.
void Lowering::take_selector(MatrixForm &form) {
  const Operand &selector = operand(form.of_warpgroup ? 4 : 5);
  uint32_t bits = bits_of_element(form.a_element), wide = form.held_k() * bits == 256 ? 2 : 1;
  uint32_t selections = 4 / (bits < 16 ? 2 * wide : wide);
  if (selector.kind != Kind::integer)
    unsupported("with a sparsity selector that is not a constant");
  if (selector.value < 0 || selector.value >= selections)
    unsupported("with the sparsity selector " + std::to_string(selector.value) + ", of " +
                std::to_string(selections));
  form.selector = static_cast<uint8_t>(selector.value);
}

// mma.m8n8k4 of f16: four products, each of eight lanes.
void Lowering::multiply_four(Opcode &opcode, MatrixForm &form) {
  auto layouts = std::find_if(opcode.modifiers.begin(), opcode.modifiers.end(),
                              [](std::string_view name) { return name == "row" || name == "col"; });
  if (opcode.modifiers.end() - layouts != 6 || operand_count() != 4)
    unsupported();
  form.columns_a = layouts[0] == "col";
  form.columns_b = layouts[1] == "row";
  Type d = sum_type(layouts[2]), c = sum_type(layouts[5]);
  if (layouts != opcode.modifiers.begin() || (layouts[1] != "row" && layouts[1] != "col") ||
      layouts[3] != "f16" || layouts[4] != "f16" || (d != Type::f16 && d != Type::f32) ||
      (c != Type::f16 && c != Type::f32) || (c == Type::f32 && d == Type::f16))
    unsupported();
  form.half_c = c == Type::f16;
  form.half_d = d == Type::f16;
  form.a.registers = form.b.registers = 2;
  form.c.registers = form.half_c ? 4 : 8;
  form.d.registers = form.half_d ? 4 : 8;
  emit_product(form, "mma.m8n8k4");
}

void Lowering::multiply_matrices(Opcode &opcode) {
  bool wmma = opcode.mnemonic == "wmma";
  MatrixForm form;
  if (!opcode.remove("sync") || !opcode.remove("aligned") || !take_shape(opcode, form))
    unsupported();
  if (!wmma && form.m == 8 && form.k == 4 && opcode.has("f16")) {
    multiply_four(opcode, form);
    return;
  }
  // Of mma, A lies by rows and B by columns; fragments of wmma do not depend on it.
  if (!wmma && !(opcode.has("row") && opcode.has("col")))
    unsupported();
  while (opcode.remove("row") || opcode.remove("col"))
    ;
  form.saturate = opcode.remove("satfinite");
  bool pops = opcode.remove("popc");
  form.and_bits = opcode.remove("and");
  bool differs = opcode.remove("xor");
  MatrixKinds kinds;
  if (!wmma && !take_kind(opcode, form, kinds))
    unsupported();
  Rounding rounding = opcode.take_rounding();
  auto &types = opcode.modifiers;
  bool short_form = wmma && types.size() == 2; // of .f16
  if (types.size() != 4 && !short_form)
    unsupported();
  Type d = sum_type(types.front()), c = sum_type(types.back());
  if (!set_elements(form, kinds, short_form ? "f16" : types[1], short_form ? "f16" : types[2]))
    unsupported();
  MatrixElement a = form.a_element;
  bool floats = a < MatrixElement::s8 && a != MatrixElement::f64;
  bool halves = form.scale == MatrixScale::none &&
                (a == MatrixElement::f16 || (a >= MatrixElement::e4m3 && a <= MatrixElement::e2m1));
  auto fits = [&](Type sum) {
    return floats ? sum == Type::f32 || (halves && sum == Type::f16)
                  : sum == (a == MatrixElement::f64 ? Type::f64 : Type::s32);
  };
  auto family = [](MatrixElement element) {
    return element >= MatrixElement::e4m3 && element <= MatrixElement::e2m1 ? MatrixElement::e4m3
           : element == MatrixElement::u8                                   ? MatrixElement::s8
           : element == MatrixElement::u4                                   ? MatrixElement::s4
                                                                            : element;
  };
  bool bits = a == MatrixElement::b1;
  if (!fits(c) || !fits(d) || family(a) != family(form.b_element) ||
      (bits && (!pops || form.and_bits == differs)) || (!bits && (pops || differs || form.and_bits)) ||
      !(wmma ? is_wmma_shape(form) : is_mma_shape(form, kinds)))
    unsupported();
  form.half_c = c == Type::f16;
  form.half_d = d == Type::f16;
  form.a = fragment_of(MatrixRole::a, form, c, wmma);
  form.b = fragment_of(MatrixRole::b, form, c, wmma);
  form.c = fragment_of(MatrixRole::c, form, c, wmma);
  form.d = fragment_of(MatrixRole::c, form, d, wmma);
  if (operand_count() != 4u + (form.sparse ? 2 : 0) + (form.scale != MatrixScale::none ? 4 : 0))
    unsupported("with " + std::to_string(operand_count()) + " operands");
  if (form.sparse)
    take_selector(form);
  emit_product(form, "mma");
  apply_rounding(result_.code.back(), rounding);
}

} // namespace emulator
