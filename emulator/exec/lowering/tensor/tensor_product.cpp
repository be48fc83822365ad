// tcgen05.mma.
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

namespace {

// How many factors a row of A has, or 0 where the names do not fit.
uint8_t take_scales(Opcode &opcode, TensorKind kind) {
  uint8_t usual = kind == TensorKind::mxf8f6f4 ? 1 : 2;
  bool named = true;
  uint8_t scales = opcode.remove("scale_vec::1X")   ? 1
                   : opcode.remove("scale_vec::2X") ? 2
                   : opcode.remove("scale_vec::4X") ? 4
                   : opcode.remove("block16")       ? 4
                   : opcode.remove("block32")       ? usual
                                                    : (named = false, usual);
  bool fits = kind == TensorKind::mxf4nvf4 ? named && scales >= 2 : scales == usual;
  return fits ? scales : 0;
}

} // namespace

void Lowering::multiply_in_tensor_memory(Opcode &opcode) {
  using Form = TensorProductForm;
  static constexpr std::pair<std::string_view, TensorKind> kinds[] = {
      {"kind::f16", TensorKind::f16},           {"kind::tf32", TensorKind::tf32},
      {"kind::f8f6f4", TensorKind::f8f6f4},     {"kind::i8", TensorKind::i8},
      {"kind::mxf8f6f4", TensorKind::mxf8f6f4}, {"kind::mxf4", TensorKind::mxf4},
      {"kind::mxf4nvf4", TensorKind::mxf4nvf4},
  };
  Form form;
  form.weights_stationary = opcode.remove("ws");
  form.sparse = opcode.remove("sp");
  form.pair = take_pair(opcode);
  form.shifts_a = opcode.remove("ashift");
  bool found = false;
  for (const auto &[name, kind] : kinds)
    if (opcode.remove(name))
      form.kind = kind, found = true;
  bool scaled = form.kind >= TensorKind::mxf8f6f4;
  if (!found || (scaled && form.weights_stationary) || (form.pair && form.weights_stationary))
    unsupported();
  // .block_scale is left out in examples of the PTX ISA.
  opcode.remove("block_scale");
  if (scaled && (form.scales = take_scales(opcode, form.kind)) == 0)
    unsupported();
  // A hint: reading a matrix anew gives the same.
  for (std::string_view m : std::vector<std::string_view>(opcode.modifiers))
    if (m.substr(0, 11) == "collector::")
      opcode.remove(m);
  if (!opcode.modifiers.empty() || operand_count() < 5)
    unsupported();

  std::vector<uint32_t> rows(Form::places, UINT32_MAX);
  size_t next = 0;
  rows[Form::d] = tensor_row(operand(next++), form.offset_of_d);
  form.tensor_a = operand(next).kind == Kind::memory;
  rows[Form::a] =
      form.tensor_a ? tensor_row(operand(next), form.offset_of_a) : source(operand(next), Type::u64);
  if (form.shifts_a && !form.tensor_a)
    unsupported("with A in shared memory");
  rows[Form::b] = source(operand(++next), Type::u64);
  if (form.sparse)
    rows[Form::metadata] = tensor_row(operand(++next), form.offset_of_metadata);
  rows[Form::descriptor] = source(operand(++next), Type::u32);
  ++next;
  if (scaled) {
    rows[Form::scale_a] = tensor_row(operand(next++), form.offset_of_scale_a);
    rows[Form::scale_b] = tensor_row(operand(next++), form.offset_of_scale_b);
  } else if (!form.weights_stationary && operand(next).kind == Kind::vector) {
    const Operand &mask = operand(next++);
    if (mask.count != (form.pair ? 8u : 4u))
      unsupported("with a mask of " + std::to_string(mask.count) + " registers");
    for (uint32_t r = 0; r < mask.count; ++r)
      rows[Form::mask + r] = source(element(mask, r), Type::u32);
  }
  rows[Form::adds] = source(operand(next++), Type::pred);
  if (next < operand_count() && form.weights_stationary) {
    rows[Form::zero_columns] = source(operand(next++), Type::u64);
  } else if (next < operand_count() && (form.kind == TensorKind::f16 || form.kind == TensorKind::tf32)) {
    const Operand &shift = operand(next++);
    if (shift.kind != Kind::integer || shift.value < 0 || shift.value > 15)
      unsupported("with a scale of D that is not from 0 to 15");
    form.shift_of_d = static_cast<uint8_t>(shift.value);
  }
  if (next != operand_count())
    unsupported("with " + std::to_string(operand_count()) + " operands");
  Lowered &lowered = emit_list(operation("tcgen05.mma").handler, std::move(rows));
  lowered.instruction.immediate = static_cast<int64_t>(program_.tensor_products.size());
  program_.tensor_products.push_back(form);
  lowered.counted = 1;
  apply_guard(lowered);
}

} // namespace emulator
