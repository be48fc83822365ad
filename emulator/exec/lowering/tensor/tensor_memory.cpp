// tcgen05, beside its products.
#include "exec/tensor_memory/tensor_memory.hpp"
#include "exec/control/control.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Space;
using ptx::Type;

// The row with an address of tensor memory, and what is added to it.
uint32_t Lowering::tensor_row(const Operand &memory, int32_t &offset) {
  if (memory.kind != Kind::memory)
    unsupported("without an address");
  offset = static_cast<int32_t>(memory.value);
  if (memory.base == Kind::integer) {
    offset = 0;
    return values_.constant(static_cast<uint32_t>(memory.value), 4);
  }
  if (memory.base != Kind::reg || ptx::size_bytes(body_.registers[memory.index]) != 4)
    unsupported("with an address of tensor memory that is not in a register of 32 bits");
  return variable_of(memory.index);
}

bool Lowering::take_pair(Opcode &opcode) {
  if (opcode.remove("cta_group::2"))
    return true;
  if (!opcode.remove("cta_group::1"))
    unsupported();
  return false;
}

void Lowering::tensor_core(Opcode &opcode) {
  program_.communicates = true;
  if (opcode.remove("mma"))
    multiply_in_tensor_memory(opcode);
  else if (opcode.has("ld") || opcode.has("st"))
    move_tensor_memory(opcode);
  else if (opcode.remove("cp"))
    copy_to_tensor_memory(opcode);
  else if (opcode.modifiers.empty())
    unsupported();
  else if (opcode.has("wait::ld") || opcode.has("wait::st")) {
    bool loads = opcode.has("wait::ld");
    need_whole_warp(loads ? control::Aligned::tcgen05_wait_ld : control::Aligned::tcgen05_wait_st);
    tell_asynchronous(asynchronous::wait,
                      asynchronous::waits_for_all(loads ? Track::tensor_loads : Track::tensor_stores));
  } else if (opcode.modifiers[0].substr(0, 7) == "fence::")
    nothing();
  else
    manage_tensor_memory(opcode);
}

void Lowering::manage_tensor_memory(Opcode &opcode) {
  auto finish = [&](Lowered &lowered) {
    lowered.counted = 1;
    apply_guard(lowered);
  };
  if (opcode.remove("commit")) {
    bool pair = take_pair(opcode), shared = opcode.remove("shared::cluster");
    bool multicast = opcode.remove("multicast::cluster");
    if (!opcode.remove("mbarrier::arrive::one") || !opcode.remove("b64") || !opcode.modifiers.empty() ||
        operand_count() != (multicast ? 2u : 1u))
      unsupported();
    uint32_t mbarrier = generic_row(operand(0), shared ? Space::shared : Space::generic);
    uint32_t blocks = multicast ? source(operand(1), Type::u16) : UINT32_MAX;
    Lowered &lowered = emit_list(tensor_memory::commit, {mbarrier, blocks});
    lowered.instruction.immediate = pair;
    finish(lowered);
    return;
  }
  if (opcode.remove("shift")) {
    bool pair = take_pair(opcode);
    int32_t offset;
    if (!opcode.remove("down") || !opcode.modifiers.empty() || operand_count() != 1)
      unsupported();
    uint32_t address = tensor_row(operand(0), offset);
    if (offset != 0)
      unsupported("with an address that is no register");
    Lowered &lowered = emit_list(tensor_memory::shift, {address});
    lowered.instruction.immediate = pair;
    finish(lowered);
    return;
  }
  bool allocates = opcode.remove("alloc"), releases = opcode.remove("dealloc");
  bool relinquishes = opcode.remove("relinquish_alloc_permit");
  bool pair = take_pair(opcode), shared = opcode.remove("shared::cta");
  if (allocates + releases + relinquishes != 1 || !opcode.remove("sync") || !opcode.remove("aligned") ||
      opcode.remove("b32") == relinquishes || !opcode.modifiers.empty() || (shared && !allocates) ||
      operand_count() != (relinquishes ? 0u : 2u))
    unsupported();
  if (relinquishes) {
    finish(emit_list(tensor_memory::relinquish, {}));
    return;
  }
  if (allocates)
    skip_unless_guarded();
  uint32_t place = allocates ? generic_row(operand(0), shared ? Space::shared : Space::generic)
                             : source(operand(0), Type::u32);
  uint32_t columns = source(operand(1), Type::u32);
  if (allocates) {
    // Woken, it is looked at again: its account comes before it.
    Lowered &account = emit(control::fall_through);
    account.accounts = true;
    account.counted = 1;
  }
  Lowered &lowered =
      emit_list(allocates ? tensor_memory::allocate : tensor_memory::deallocate, {place, columns});
  lowered.instruction.immediate = pair;
  lowered.accounts = allocates;
  if (!allocates)
    finish(lowered);
}

void Lowering::move_tensor_memory(Opcode &opcode) {
  static constexpr std::pair<std::string_view, TensorShape> shapes[] = {
      {"32x32b", TensorShape::lanes32_bits32},   {"16x64b", TensorShape::lanes16_bits64},
      {"16x128b", TensorShape::lanes16_bits128}, {"16x256b", TensorShape::lanes16_bits256},
      {"16x32bx2", TensorShape::halves},
  };
  TensorMoveForm form;
  bool loads = opcode.remove("ld"), reduces = loads && opcode.remove("red"), shaped = false;
  if ((!loads && !opcode.remove("st")) || !opcode.remove("sync") || !opcode.remove("aligned"))
    unsupported();
  for (const auto &[name, shape] : shapes)
    if (opcode.remove(name))
      form.shape = shape, shaped = true;
  uint32_t repeats = 0;
  for (uint32_t count = 1; count <= 128; count *= 2)
    if (opcode.remove("x" + std::to_string(count)))
      repeats = count;
  form.packed = opcode.remove(loads ? "pack::16b" : "unpack::16b");
  if (reduces) {
    bool least = opcode.remove("min");
    if (!least && !opcode.remove("max"))
      unsupported();
    form.reduction = least ? TensorReduction::minimum : TensorReduction::maximum;
    form.absolute = opcode.remove("abs");
    form.keeps_nan = opcode.remove("NaN");
    form.value = opcode.remove("u32")   ? TensorValue::u32
                 : opcode.remove("s32") ? TensorValue::s32
                                        : TensorValue::f32;
    bool floats = form.value == TensorValue::f32;
    bool one_lane = form.shape == TensorShape::lanes32_bits32 || form.shape == TensorShape::halves;
    if ((floats && !opcode.remove("f32")) || (!floats && (form.absolute || form.keeps_nan)) || repeats < 2 ||
        !one_lane || form.packed)
      unsupported();
  } else if (!opcode.remove("b32")) {
    unsupported();
  }
  bool halves = form.shape == TensorShape::halves;
  form.registers = repeats * (form.shape == TensorShape::lanes16_bits128   ? 2
                              : form.shape == TensorShape::lanes16_bits256 ? 4
                                                                           : 1);
  if (!shaped || repeats == 0 || form.registers > 128 || !opcode.modifiers.empty() ||
      operand_count() != 2u + (halves ? 1 : 0) + (reduces ? 1 : 0))
    unsupported("with " + std::to_string(operand_count()) + " operands");
  size_t next = 0, list = 0, reduced = 0, address = 0, split = 0;
  if (loads) {
    list = next++;
    reduced = reduces ? next++ : 0;
    address = next++;
    split = next;
  } else {
    address = next++;
    split = next;
    next += halves ? 1 : 0;
    list = next;
  }
  if (halves) {
    if (operand(split).kind != Kind::integer)
      unsupported("with a variable distance of the halves");
    form.split = static_cast<uint32_t>(operand(split).value);
  }
  const Operand &registers = operand(list);
  bool vector = registers.kind == Kind::vector;
  if ((vector ? registers.count : 1u) != form.registers)
    unsupported("with a list of " + std::to_string(vector ? registers.count : 1u) + " registers, not " +
                std::to_string(form.registers));
  std::vector<uint32_t> rows{tensor_row(operand(address), form.address_offset)};
  for (uint32_t r = 0; r < form.registers; ++r) {
    const Operand &one = vector ? element(registers, r) : registers;
    rows.push_back(loads ? destination(one, Type::b32) : source(one, Type::b32));
  }
  if (reduces)
    rows.push_back(destination(operand(reduced), Type::b32));
  for (size_t r = 1; deferred_ && loads && r < rows.size(); ++r)
    values_.values[rows[r]].kept = true;
  Lowered &lowered = emit(loads ? tensor_memory::load : tensor_memory::store);
  for (size_t r = 0; r < rows.size(); ++r)
    refer(lowered, Field::list, rows[r], loads && r > 0);
  lowered.list = std::move(rows);
  lowered.instruction.immediate = static_cast<int64_t>(program_.tensor_moves.size());
  program_.tensor_moves.push_back(form);
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

void Lowering::copy_to_tensor_memory(Opcode &opcode) {
  TensorCopyForm form;
  form.pair = take_pair(opcode);
  bool fits = true;
  if (opcode.remove("128x256b")) {
    form.row_bytes = 32;
  } else if (opcode.remove("128x128b")) {
    form.row_bytes = 16;
  } else if (opcode.remove("4x256b")) {
    form.rows = 4, form.row_bytes = 32, form.run = 1, form.step = 32; // a row for each quarter
  } else if (opcode.remove("64x128b")) {
    form.rows = 64, form.row_bytes = 16, form.copies = 2;
    if (opcode.remove("warpx2::02_13"))
      form.run = 64, form.copy_step = 64;
    else if (opcode.remove("warpx2::01_23"))
      form.run = 32, form.step = 64, form.copy_step = 32;
    else
      fits = false;
  } else if (opcode.remove("32x128b")) {
    form.rows = 32, form.row_bytes = 16, form.copies = 4, form.copy_step = 32;
    fits = opcode.remove("warpx4");
  } else {
    fits = false;
  }
  if (opcode.remove("b8x16")) {
    form.element_bits = opcode.remove("b6x16_p32") ? 6 : opcode.remove("b4x16_p64") ? 4 : 0;
    fits = fits && form.element_bits != 0;
  }
  if (!fits || !opcode.modifiers.empty() || operand_count() != 2)
    unsupported();
  uint32_t address = tensor_row(operand(0), form.address_offset);
  Lowered &lowered = emit_list(tensor_memory::copy, {address, source(operand(1), Type::u64)});
  lowered.instruction.immediate = static_cast<int64_t>(program_.tensor_copies.size());
  program_.tensor_copies.push_back(form);
  lowered.counted = 1;
  apply_guard(lowered);
}

} // namespace emulator
