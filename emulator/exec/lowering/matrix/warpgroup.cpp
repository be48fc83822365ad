// wgmma: what a warp of the group multiplies is done when it is issued, so that nothing is left to wait for,
// unless operations are deferred.
#include "exec/control/control.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/lowering/lowering.hpp"
#include "exec/lowering/matrix/form.hpp"

namespace emulator {

using ptx::Type;

void Lowering::wait_for_products() {
  skip_unless_guarded();
  // Woken, it is looked at again: its account comes before it.
  Lowered &account = emit(control::fall_through);
  account.accounts = true;
  account.counted = 1;
  Lowered &lowered = emit(asynchronous::wait_for_products);
  lowered.accounts = true;
  lowered.instruction.immediate = group_count();
}

void Lowering::multiply_of_warpgroup(Opcode &opcode) {
  if (!opcode.has("mma_async"))
    need_whole_warp(opcode.has("fence")          ? control::Aligned::wgmma_fence
                    : opcode.has("commit_group") ? control::Aligned::wgmma_commit_group
                                                 : control::Aligned::wgmma_wait_group);
  if (opcode.remove("fence")) {
    tell_asynchronous(asynchronous::fence_registers);
    return;
  }
  if (deferred_ && opcode.remove("wait_group")) {
    wait_for_products();
    return;
  }
  if (tell_of_groups(opcode, Track::products))
    return;
  MatrixForm form;
  form.of_warpgroup = form.shared_b = true;
  if (!opcode.remove("mma_async") || !opcode.remove("sync") || !opcode.remove("aligned") ||
      !take_shape(opcode, form) || operand_count() < 4)
    unsupported();
  form.saturate = opcode.remove("satfinite");
  form.sparse = opcode.remove("sp");
  form.and_bits = opcode.remove("and");
  bool pops = opcode.remove("popc");
  const auto &types = opcode.modifiers;
  if (types.size() != 3 || !find_element(types[1], form.a_element) || !find_element(types[2], form.b_element))
    unsupported();
  Type sum = sum_type(types[0]);
  MatrixElement a = form.a_element, b = form.b_element;
  auto both = [&](MatrixElement one, MatrixElement other) {
    return (a == one || a == other) && (b == one || b == other);
  };
  bool integers = both(MatrixElement::s8, MatrixElement::u8), halves = a == b && a <= MatrixElement::bf16;
  bool narrow = both(MatrixElement::e4m3, MatrixElement::e5m2), tf32 = a == b && a == MatrixElement::tf32;
  bool bits = a == b && a == MatrixElement::b1;
  bool fits = integers || bits
                  ? sum == Type::s32
                  : sum == Type::f32 || (sum == Type::f16 && (narrow || a == MatrixElement::f16));
  constexpr uint32_t row_bits = 256, warps = 4;
  if ((!integers && !halves && !narrow && !tf32 && !bits) || !fits || (form.saturate && !integers) ||
      form.m != 64 || bits != (form.and_bits && pops) || bits != (form.and_bits || pops) ||
      (bits && form.sparse) || form.held_k() * bits_of_element(a) != row_bits || form.n % 8 != 0 ||
      form.n == 0 || form.n > 256)
    unsupported();
  form.m /= warps;
  form.half_c = form.half_d = sum == Type::f16;
  form.shared_a = operand(1).kind != Kind::vector;
  form.a = fragment_of(MatrixRole::a, form, sum, false);
  form.b = fragment_of(MatrixRole::b, form, sum, false);
  form.c = form.d = fragment_of(MatrixRole::c, form, sum, false);
  form.b.registers = 1;
  if (form.shared_a)
    form.a.registers = 1;
  if (form.sparse)
    take_selector(form);
  // After the predicate of D: for floats the signs of A and B, for halves in memory whether they lie by
  // columns.
  size_t next = form.sparse ? 6 : 4;
  auto flag = [&](int64_t when_set) {
    const Operand &one = operand(next++);
    if (one.kind != Kind::integer)
      unsupported("with a variable flag");
    return one.value == when_set;
  };
  if (!integers && !bits) {
    bool first = flag(-1), second = flag(-1);
    form.negated = first != second;
  }
  if (halves) {
    form.columns_a = form.shared_a && flag(1);
    form.columns_b = flag(1);
  }
  if (next != operand_count())
    unsupported("with " + std::to_string(operand_count()) + " operands");
  emit_product(form, "mma");
  result_.code.back().instruction.is_copy = true; // it reads its matrices later
}

} // namespace emulator
