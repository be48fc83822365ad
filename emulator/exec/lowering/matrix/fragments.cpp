// wmma.load and wmma.store: each lane loads or stores its own elements, register by register, like any load
// or store.
#include "exec/lowering/lowering.hpp"
#include "exec/lowering/matrix/form.hpp"

namespace emulator {

using ptx::Type;

void Lowering::warp_matrix(Opcode &opcode) {
  if (opcode.remove("mma"))
    multiply_matrices(opcode);
  else
    move_fragment(opcode);
}

void Lowering::move_fragment(Opcode &opcode) {
  MatrixForm form;
  bool loads = opcode.remove("load");
  if ((!loads && !opcode.remove("store")) || !opcode.remove("sync") || !opcode.remove("aligned") ||
      !take_shape(opcode, form) || operand_count() < 2 || operand_count() > 3)
    unsupported();
  bool by_rows = opcode.remove("row");
  if (!by_rows && !opcode.remove("col"))
    unsupported();
  MatrixRole role = opcode.remove("a") ? MatrixRole::a : opcode.remove("b") ? MatrixRole::b : MatrixRole::c;
  if (role == MatrixRole::c && !opcode.remove(loads ? "c" : "d"))
    unsupported();
  ptx::Space space = opcode.remove("global")                                   ? ptx::Space::global
                     : opcode.remove("shared") || opcode.remove("shared::cta") ? ptx::Space::shared
                                                                               : ptx::Space::generic;
  if (opcode.modifiers.size() != 1 || (!loads && role != MatrixRole::c))
    unsupported();
  Type sum = role == MatrixRole::c ? sum_type(opcode.modifiers[0]) : Type::f32;
  if (role != MatrixRole::c && !find_element(opcode.modifiers[0], form.a_element))
    unsupported();
  if (role == MatrixRole::c) // elements whose products have this type and shape
    form.a_element = sum == Type::f64   ? MatrixElement::f64
                     : sum != Type::s32 ? (form.k == 8 ? MatrixElement::tf32 : MatrixElement::f16)
                     : form.k == 16     ? MatrixElement::s8
                     : form.k == 32     ? MatrixElement::s4
                                        : MatrixElement::b1;
  form.b_element = form.a_element;
  if (sum == Type::none || !is_wmma_shape(form))
    unsupported();
  Fragment fragment = fragment_of(role, form, sum, true);
  need_whole_warp(loads ? control::Aligned::wmma_load : control::Aligned::wmma_store);

  // All in bytes. A column of the fragment is one of its matrix, of B a row.
  bool is_bits = role != MatrixRole::c && form.a_element == MatrixElement::b1;
  uint32_t bits = role != MatrixRole::c ? bits_of_element(form.a_element) : 8 * ptx::size_bytes(sum);
  uint32_t column_bits = is_bits ? 32 : bits, row_elements = role == MatrixRole::b ? form.n : form.m;
  uint32_t column_elements = role == MatrixRole::c ? form.n : form.k;
  bool adjacent = role == MatrixRole::b ? !by_rows : by_rows;
  if (bits < 8 && !adjacent)
    unsupported();
  auto constant = [&](uint64_t value) { return values_.constant(value, 8); };
  auto calculate = [&](std::string_view name, const std::vector<uint32_t> &sources) {
    uint32_t result = values_.variable(8 * lanes_per_warp);
    emit(name, sources, result);
    return result;
  };
  int64_t offset;
  bool wide;
  uint32_t pointer = address_row(operand(loads ? 1 : 0), space, offset, wide);
  if (space != ptx::Space::global && space != ptx::Space::shared && space != ptx::Space::generic)
    unsupported();
  if (!wide)
    pointer = resized(pointer, Type::u32, Type::u64);
  uint32_t stride = operand_count() == 3 ? source(operand(2), Type::u32)
                                         : values_.constant(adjacent ? column_elements : row_elements, 4);
  uint32_t pitch = calculate("mul.wide.u32", {stride, values_.constant(bits, 4)});
  pitch = calculate("shr.u64", {pitch, values_.constant(3, 4)});
  uint32_t lane = resized(values_.special(Special::laneid, 4), Type::u32, Type::u64);
  uint32_t outer = calculate("shr.u64", {lane, values_.constant(2, 4)});
  uint32_t inner = calculate("and.b64", {lane, constant(3)});
  uint32_t outer_step = adjacent ? pitch : constant(column_bits / 8);
  uint32_t inner_step = adjacent ? constant(fragment.step * column_bits / 8)
                                 : calculate("mul.lo.u64", {pitch, constant(fragment.step)});
  uint32_t base = calculate("mad.lo.u64", {outer, outer_step, pointer});
  base = calculate("mad.lo.u64", {inner, inner_step, base});

  Type type = bits == 64 ? Type::b64 : Type::b32;
  uint32_t lane_bytes = ptx::size_bytes(type);
  std::vector<uint32_t> rows = fragment_rows(operand(loads ? 0 : 1), fragment, type, loads);
  auto access = [&](uint32_t row, uint32_t column, uint32_t bytes, uint32_t value) {
    // What one lane's address has more than the base.
    uint32_t along = adjacent ? row : column;
    int64_t more = offset + (adjacent ? column : row) * int64_t{column_bits} / 8;
    uint32_t address = along ? calculate("mad.lo.u64", {pitch, constant(along), base}) : base;
    Lowered &lowered =
        emit((loads ? "ld.u" : "st.u") + std::to_string(8 * bytes) + "." + std::to_string(8 * lane_bytes), {},
             UINT32_MAX);
    refer(lowered, Field::a, address, false);
    refer(lowered, loads ? Field::destination : Field::b, value, loads);
    lowered.instruction.space = space;
    lowered.instruction.site = ++program_.sites;
    lowered.instruction.immediate = more;
    lowered.instruction.wide_address = true;
    lowered.instruction.extra_count = 1;
    lowered.instruction.element_bytes = static_cast<uint8_t>(bytes);
    apply_guard(lowered);
  };
  auto bits_row = [&](std::string_view name, const std::vector<uint32_t> &sources) {
    uint32_t result = values_.variable(row_bytes_of(Type::b32));
    emit(name, sources, result);
    return result;
  };
  for (uint32_t r = 0; r < fragment.distinct; ++r) {
    const MatrixTile &tile = fragment.tile[r];
    if (adjacent || fragment.elements == 1) {
      access(tile.row, tile.column, lane_bytes, rows[r]);
      continue;
    }
    uint32_t whole = UINT32_MAX;
    for (uint32_t e = 0; e < fragment.elements; ++e) {
      uint32_t shift = values_.constant(e * bits, 4);
      uint32_t part = loads    ? values_.variable(row_bytes_of(Type::b32))
                      : e == 0 ? rows[r]
                               : bits_row("shr.u32", {rows[r], shift});
      access(tile.row, tile.column + e, bits / 8, part);
      if (loads)
        whole = e == 0 ? part : bits_row("or.b32", {whole, bits_row("shl.b32", {part, shift})});
    }
    if (loads)
      apply_guard(emit("mov.b32", {whole}, rows[r]));
  }
  for (uint32_t r = fragment.distinct; loads && r < fragment.registers; ++r)
    apply_guard(emit("mov.b32", {rows[r - fragment.distinct]}, rows[r]));
  result_.code.back().counted = 1;
  finish_destinations();
}

} // namespace emulator
