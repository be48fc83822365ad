// clusterlaunchcontrol.
#include "exec/copies/launch_control.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Space;
using ptx::Type;

void Lowering::control_launches(Opcode &opcode) {
  if (opcode.remove("try_cancel")) {
    // Which cluster is next is the same in each run when they begin in one order.
    program_.communicates = program_.orders_blocks = true;
    bool shared = opcode.remove("shared::cta"), all = opcode.remove("multicast::cluster::all");
    if (!opcode.remove("async") || !opcode.remove("mbarrier::complete_tx::bytes") || !opcode.remove("b128") ||
        !opcode.modifiers.empty() || operand_count() != 2)
      unsupported();
    Space space = shared ? Space::shared : Space::generic;
    uint32_t answer = generic_row(operand(0), space), mbarrier = generic_row(operand(1), space);
    Lowered &lowered = emit_list(launch_control::try_cancel, {answer, mbarrier});
    lowered.instruction.immediate = all;
    lowered.counted = 1;
    apply_guard(lowered);
    return;
  }
  if (!opcode.remove("query_cancel") || !opcode.remove("b128") || operand_count() != 2)
    unsupported();
  auto [low, high] = halves(operand(1));
  auto upper = [&](uint32_t row) {
    uint32_t result = values_.variable(8 * lanes_per_warp);
    emit("shr.u64", {row, values_.constant(32, 4)}, result);
    return result;
  };
  if (opcode.remove("is_canceled")) {
    Lowered &lowered =
        emit("setp.ne.u64", {upper(high), values_.constant(0, 8)}, destination(operand(0), Type::pred));
    lowered.counted = 1;
    apply_guard(lowered);
    return;
  }
  uint32_t parts[] = {low, upper(low), high, values_.constant(0, 8)};
  auto put = [&](const Operand &to, uint32_t part) {
    apply_guard(emit("mov.b32", {resized(parts[part], Type::u64, Type::u32)}, destination(to, Type::b32)));
  };
  const Operand &to = operand(0);
  if (!opcode.remove("b32"))
    unsupported();
  if (opcode.remove("get_first_ctaid") && opcode.remove("v4") && to.kind == Kind::vector && to.count == 4) {
    for (uint32_t e = 0; e < 4; ++e)
      if (element(to, e).kind != Kind::sink)
        put(element(to, e), e);
  } else if (opcode.remove("get_first_ctaid::x")) {
    put(to, 0);
  } else if (opcode.remove("get_first_ctaid::y")) {
    put(to, 1);
  } else if (opcode.remove("get_first_ctaid::z")) {
    put(to, 2);
  } else {
    unsupported();
  }
  if (!opcode.modifiers.empty())
    unsupported();
  result_.code.back().counted = 1;
  finish_destinations();
}

} // namespace emulator
