// Branches, calls, barriers, and what lanes do together.
#include <algorithm>

#include "exec/control/addresses.hpp"
#include "exec/control/control.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

void Lowering::branch(Opcode &opcode) {
  opcode.remove("uni");
  if (opcode.mnemonic == "bra") {
    if (operand(0).kind != Kind::label || body_.labels[operand(0).index].is_table)
      unsupported("to something that is no label");
    Lowered &lowered = emit(control::branch);
    lowered.accounts = true;
    lowered.counted = 1;
    lowered.flow = Flow::branch;
    lowered.target = body_.labels[operand(0).index].position;
    if (instruction_->guard >= 0) {
      lowered.instruction.guard = 0;
      lowered.instruction.guard_negated = instruction_->guard_negated;
      refer(lowered, Field::guard, variable_of(static_cast<uint32_t>(instruction_->guard)), false);
    }
    return;
  }
  if (!opcode.remove("idx") || operand(1).kind != Kind::label || !body_.labels[operand(1).index].is_table)
    unsupported();
  skip_unless_guarded();
  uint32_t index = source(operand(0), Type::u32);
  // Lanes that choose another target come back to the branch: its account comes before it.
  Lowered &account = emit(control::fall_through);
  account.accounts = true;
  account.counted = 1;
  Lowered &lowered = emit(control::branch_table);
  lowered.accounts = true;
  lowered.flow = Flow::table;
  lowered.table = body_.labels[operand(1).index].position;
  refer(lowered, Field::a, index, false);
}

void Lowering::control(Opcode &opcode) {
  std::string_view name = opcode.mnemonic;
  if (name == "ret") {
    skip_unless_guarded();
    Lowered &lowered = emit(function_index_ == 0 ? control::exit : control::branch);
    lowered.accounts = true;
    lowered.counted = 1;
    lowered.flow = function_index_ == 0 ? Flow::end : Flow::branch;
    lowered.target = static_cast<uint32_t>(body_.instructions.size());
  } else if (name == "exit" || name == "trap" || name == "brkpt") {
    // There is no debugger that a break point could stop in.
    skip_unless_guarded();
    Lowered &lowered = emit(name == "exit" ? control::exit : control::trap);
    lowered.accounts = true;
    lowered.counted = 1;
    lowered.flow = Flow::end;
  } else if (name == "nanosleep") {
    skip_unless_guarded();
    Lowered &lowered = emit(control::yield);
    lowered.accounts = true;
    lowered.counted = 1;
    program_.communicates = true;
  } else if (name == "setmaxnreg") {
    const Operand &registers = operand(0);
    if (registers.kind != Kind::integer || registers.value < 24 || registers.value > 256 ||
        registers.value % 8)
      unsupported("of a number of registers that is no multiple of 8 from 24 to 256");
    need_whole_warp(control::Aligned::setmaxnreg);
    if (checked_) {
      Lowered &lowered = emit(control::set_registers);
      lowered.instruction.immediate = registers.value * 2 + opcode.has("inc");
      lowered.counted = 1;
      apply_guard(lowered);
    } else {
      nothing();
    }
  } else if (name == "griddepcontrol" && opcode.has("wait") && deferred_) {
    skip_unless_guarded();
    Lowered &lowered = emit(control::wait_for_prerequisite);
    lowered.accounts = true;
    lowered.counted = 1;
  } else {
    program_.info.releases_dependents |= opcode.has("launch_dependents");
    if (name == "membar" || name == "fence") {
      program_.communicates = true;
      program_.orders_blocks |= !opcode.has("cta") && !opcode.has("shared::cta");
    }
    // Memory is always in order here, caches do not exist: nothing is left to do but for operations that are
    // deferred.
    auto is_async = [](std::string_view m) { return m.substr(0, 5) == "async" && m != "async.global"; };
    bool fences = opcode.has("proxy") && !opcode.has("global") &&
                  std::any_of(opcode.modifiers.begin(), opcode.modifiers.end(), is_async);
    if (fences)
      tell_asynchronous(asynchronous::fence_shared);
    else if (deferred_ && opcode.has("tensormap::generic") && opcode.has("acquire")) {
      Lowered &lowered = emit_list(asynchronous::acquire_map, {generic_row(operand(0), ptx::Space::generic)});
      lowered.counted = 1;
      apply_guard(lowered);
    } else if (checked_ && (name == "membar" || name == "fence"))
      fence();
    else
      nothing();
  }
}

void Lowering::need_whole_warp(control::Aligned name) {
  Lowered &together = emit(control::whole_warp);
  together.instruction.immediate = static_cast<int64_t>(name);
  apply_guard(together);
}

void Lowering::fence() {
  Lowered &lowered = emit(control::fence);
  lowered.counted = 1;
  apply_guard(lowered);
}

// A policy of a cache that does not exist.
void Lowering::create_policy(Opcode &) {
  Lowered &lowered = emit("mov.b64", {values_.constant(0, 8)}, destination(operand(0), Type::b64));
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

void Lowering::test_space(Opcode &opcode) {
  static const std::pair<std::string_view, ptx::Space> spaces[] = {
      {"global", ptx::Space::global},          {"const", ptx::Space::constant},
      {"shared", ptx::Space::shared},          {"shared::cta", ptx::Space::shared},
      {"shared::cluster", ptx::Space::shared}, {"local", ptx::Space::local},
      {"param", ptx::Space::parameter},        {"param::entry", ptx::Space::parameter},
  };
  ptx::Space space = ptx::Space::generic;
  for (const auto &[name, meaning] : spaces)
    if (opcode.modifiers.size() == 1 && opcode.modifiers[0] == name)
      space = meaning;
  if (space == ptx::Space::generic)
    unsupported();
  uint32_t value = source(operand(1), Type::u64);
  uint32_t result = destination(operand(0), Type::pred);
  Lowered &lowered = emit(control::is_space);
  lowered.instruction.space = space;
  lowered.instruction.immediate = opcode.modifiers[0] == "shared::cluster";
  refer(lowered, Field::a, value, false);
  refer(lowered, Field::destination, result, true);
  lowered.references.back().uses = true;
  lowered.counted = 1;
  apply_guard(lowered);
}

void Lowering::stack(Opcode &opcode) {
  Type type = opcode.last_type();
  if (type != Type::u32 && type != Type::u64)
    unsupported();
  if (opcode.mnemonic == "stackrestore") {
    uint32_t top = resized(source(operand(0), type), type, Type::u64);
    Lowered &lowered = emit(control::restore_stack);
    refer(lowered, Field::a, top, false);
    lowered.counted = 1;
    apply_guard(lowered);
    return;
  }
  bool allocates = opcode.mnemonic == "alloca";
  uint32_t bytes = allocates ? resized(source(operand(1), type), type, Type::u64) : UINT32_MAX;
  int64_t alignment = allocates && operand_count() > 2 ? operand(2).value : 8;
  if (alignment <= 0 || alignment > ptx::most_alignment || (alignment & (alignment - 1)))
    unsupported("with an alignment of " + std::to_string(alignment));
  uint32_t result = destination(operand(0), Type::u64);
  Lowered &lowered = emit(allocates ? control::allocate_stack : control::save_stack);
  lowered.instruction.immediate = alignment;
  if (allocates)
    refer(lowered, Field::a, bytes, false);
  refer(lowered, Field::destination, result, true);
  lowered.references.back().uses = true;
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

void Lowering::barrier(Opcode &opcode) {
  if (opcode.remove("warp")) {
    if (!opcode.remove("sync"))
      unsupported();
    skip_unless_guarded();
    uint32_t members = source(operand(0), Type::u32);
    Lowered &lowered = emit(operation("bar.warp").handler);
    lowered.instruction.is_warp_barrier = true;
    refer(lowered, Field::b, members, false);
    lowered.counted = 1;
    return;
  }
  if (opcode.has("cluster")) {
    cluster(opcode);
    return;
  }
  skip_unless_guarded();
  opcode.remove("cta");
  bool aligned = opcode.remove("aligned") || opcode.mnemonic == "bar";
  BarrierKind kind = BarrierKind::sync;
  size_t id = 0;
  bool reduces = opcode.remove("red");
  if (reduces) {
    id = 1;
    kind = opcode.has("and")    ? BarrierKind::reduce_and
           : opcode.has("or")   ? BarrierKind::reduce_or
           : opcode.has("popc") ? BarrierKind::reduce_popc
                                : BarrierKind::sync;
    if (kind == BarrierKind::sync)
      unsupported();
  } else if (opcode.remove("arrive")) {
    kind = BarrierKind::arrive;
  } else if (!opcode.remove("sync")) {
    unsupported();
  }
  uint32_t number = source(operand(id), Type::u32);
  bool counted = operand_count() > id + 1 + (reduces ? 1 : 0);
  uint32_t threads = counted ? source(operand(id + 1), Type::u32) : UINT32_MAX;
  uint32_t condition = reduces ? source(operand(operand_count() - 1), Type::pred) : UINT32_MAX;
  Type result_type = kind == BarrierKind::reduce_popc ? Type::u32 : Type::pred;
  uint32_t result = reduces ? destination(operand(0), result_type) : UINT32_MAX;
  Lowered &lowered = emit(control::barrier);
  lowered.accounts = true;
  lowered.counted = 1;
  lowered.instruction.immediate = static_cast<int64_t>(kind);
  lowered.instruction.is_aligned = aligned;
  refer(lowered, Field::a, number, false);
  if (counted)
    refer(lowered, Field::b, threads, false);
  if (reduces) {
    refer(lowered, Field::c, condition, false);
    refer(lowered, Field::destination, result, true);
  }
  finish_destinations();
}

void Lowering::lanes(Opcode &opcode) {
  bool sync = opcode.remove("sync");
  std::string_view name = opcode.mnemonic;
  if (opcode.remove("abs"))
    opcode.modifiers.insert(opcode.modifiers.begin(), "abs");
  const Operation &found = operation(opcode.form());
  bool shuffle = name == "shfl";
  size_t sources = shuffle ? 3 : found.source_count;
  size_t expected = 1 + sources + (sync ? 1 : 0);
  if (operand_count() != expected)
    unsupported("with " + std::to_string(operand_count()) + " operands");
  std::vector<uint32_t> values;
  for (size_t s = 0; s < sources; ++s)
    values.push_back(source(operand(1 + s), found.sources[s]));
  uint32_t members = sync ? source(operand(1 + sources), Type::u32) : UINT32_MAX;
  const Operand &to = operand(0);
  const Operand &first = to.kind == Kind::pair ? element(to, 0) : to;
  bool wants = first.kind != Kind::sink;
  uint32_t result = wants || !shuffle ? destination(first, found.destination) : UINT32_MAX;
  uint32_t flag = UINT32_MAX;
  if (to.kind == Kind::pair && element(to, 1).kind != Kind::sink)
    flag = destination(element(to, 1), Type::pred);
  else if (name == "elect")
    flag = values_.variable(4);
  static constexpr Field fields[] = {Field::a, Field::b, Field::c};
  Lowered &lowered = emit(found.handler);
  lowered.shadow.kind = shuffle ? ShadowKind::moved : name == "vote" ? ShadowKind::bits : ShadowKind::across;
  lowered.shadow.data = 1;
  lowered.shadow.is_repeated_after = true;
  for (size_t s = 0; s < values.size(); ++s)
    refer(lowered, fields[s], values[s], false);
  if (result != UINT32_MAX)
    refer(lowered, Field::destination, result, true);
  if (shuffle) {
    lowered.instruction.extra = no_offset;
    if (sync)
      refer(lowered, Field::extra, members, false);
    if (flag != UINT32_MAX)
      refer(lowered, Field::immediate_plus_one, flag, true);
  } else {
    if (sync)
      refer(lowered, Field::b, members, false);
    if (flag != UINT32_MAX)
      refer(lowered, Field::c, flag, true);
  }
  // Lanes that are not there keep what they have.
  for (Reference &r : lowered.references)
    r.uses |= r.defines;
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

std::vector<ParameterBytes> Lowering::parameter_bytes(const Operand &list) {
  std::vector<ParameterBytes> bytes;
  for (uint32_t k = 0; k < list.count; ++k) {
    const Operand &one = element(list, k);
    if (one.kind != Kind::symbol || !body_.symbols[one.index].variable ||
        body_.symbols[one.index].variable->space != ptx::Space::parameter)
      unsupported("with arguments that are not .param variables");
    const ptx::Variable &variable = *body_.symbols[one.index].variable;
    bytes.push_back({frame_offset(variable), static_cast<uint32_t>(variable.size_bytes)});
  }
  return bytes;
}

void Lowering::call(Opcode &) {
  skip_unless_guarded();
  size_t next = 0;
  Callee callee;
  callee.caller = function_index_;
  if (operand(next).kind == Kind::arguments)
    callee.returns = parameter_bytes(operand(next++));
  const Operand &target = operand(next++);
  if (next < operand_count() && operand(next).kind == Kind::arguments)
    callee.arguments = parameter_bytes(operand(next++));
  uint32_t address = UINT32_MAX;
  if (target.kind == Kind::reg) {
    callee.kind = CalleeKind::indirect;
    address = source(target, Type::u64);
  } else if (target.kind == Kind::symbol && body_.symbols[target.index].function) {
    const ptx::Function &function = *body_.symbols[target.index].function;
    if (function.is_extern) {
      static const std::pair<std::string_view, CalleeKind> services[] = {
          {"vprintf", CalleeKind::vprintf},
          {"malloc", CalleeKind::malloc},
          {"free", CalleeKind::free},
          {"__assertfail", CalleeKind::assertfail},
          {"__cudaCDP2GetParameterBufferV2", CalleeKind::parameter_buffer},
          {"__cudaCDP2LaunchDeviceV2", CalleeKind::launch},
          {"__cudaCDP2GetLastError", CalleeKind::last_error},
          {"__cudaCDP2PeekAtLastError", CalleeKind::peek_error},
      };
      callee.kind = CalleeKind::no_operation;
      for (const auto &[name, kind] : services)
        if (function.name == name)
          callee.kind = kind;
      if (callee.kind == CalleeKind::no_operation)
        unsupported("of the undefined function " + std::string(function.name));
      program_.has_side_effects = true;
    } else {
      callee.function = layout_.function_index.at(&function);
    }
  } else {
    unsupported("of something that is no function");
  }
  callee.save_rows = callee.kind == CalleeKind::indirect ||
                     (callee.kind == CalleeKind::function && program_.functions[callee.function].recursive &&
                      program_.functions[function_index_].recursive);
  bool indirect = callee.kind == CalleeKind::indirect;
  if (indirect) {
    Lowered &account = emit(control::fall_through);
    account.accounts = true;
    account.counted = 1;
  }
  program_.callees.push_back(std::move(callee));
  Lowered &lowered = emit(control::call);
  lowered.accounts = true;
  lowered.counted = indirect ? 0 : 1;
  lowered.meets_after = indirect;
  lowered.instruction.immediate = static_cast<int64_t>(program_.callees.size() - 1);
  if (indirect)
    refer(lowered, Field::a, address, false);
}

} // namespace emulator
