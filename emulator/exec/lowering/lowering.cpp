// Emitting, and the families of instructions that need no more than the operation table.
#include "exec/lowering/lowering.hpp"

#include <algorithm>

#include "exec/check/between/global_races.hpp"
#include "exec/check/numbers.hpp"
#include "exec/check/undefined/rules.hpp"
#include "exec/control/control.hpp"
#include "exec/operations/builds.hpp"

namespace emulator {

using ptx::Type;

Lowering::Lowering(const ptx::Body &body, uint32_t function_index, const Layout &layout, ValueTable &values,
                   Program &program)
    : body_(body), function_index_(function_index), layout_(layout), values_(values), program_(program),
      first_register_(static_cast<uint32_t>(values.values.size())) {
  for (Type type : body.registers)
    values.variable(type == Type::b128 ? 8 * lanes_per_warp : row_bytes_of(type));
  for (uint32_t reg = 0; reg < body.registers.size(); ++reg)
    if (body.registers[reg] == Type::b128)
      upper_half_[reg] = values.variable(8 * lanes_per_warp);
  for (const std::vector<uint32_t> &table : body.tables) {
    tables_.emplace_back();
    for (uint32_t label : table)
      tables_.back().push_back(body.labels[label].position);
  }
}

void Lowering::unsupported(const std::string &why) const {
  throw Unsupported{std::string(instruction_->opcode) + (why.empty() ? "" : " " + why),
                    instruction_->source.ptx_line};
}

uint32_t Lowering::frame_offset(const ptx::Variable &variable) const {
  auto found = layout_.frame_offset.find(&variable);
  if (found == layout_.frame_offset.end())
    unsupported("of a variable in another state space");
  return found->second;
}

bool Lowering::is_kernel_parameter(const ptx::Variable &variable) const {
  const ptx::Function *kernel = program_.functions[0].function;
  return std::any_of(kernel->parameters.begin(), kernel->parameters.end(),
                     [&](const ptx::Variable &parameter) { return &parameter == &variable; });
}

Lowered &Lowering::emit(Handler handler) {
  result_.code.emplace_back();
  Lowered &lowered = result_.code.back();
  lowered.instruction.handler = handler;
  lowered.source = instruction_->source;
  lowered.instruction_class = instruction_class_;
  if (handler == control::branch || handler == control::branch_table)
    lowered.shadow.kind = ShadowKind::branch;
  return lowered;
}

const Operation &Lowering::operation(const std::string &form) const {
  const Operation *found = operation_table().find(form);
  if (!found)
    unsupported();
  return *found;
}

Lowered &Lowering::emit(std::string_view form, const std::vector<uint32_t> &sources, uint32_t destination) {
  static constexpr Field fields[] = {Field::a, Field::b, Field::c, Field::extra};
  const Operation &found = operation(std::string(form));
  Lowered &lowered = emit(found.handler);
  lowered.instruction.immediate = found.immediate;
  lowered.known = found.known;
  if (watches_numbers_)
    lowered.watched =
        watched_numbers(instruction_->opcode, found.destination, found.sources, found.source_count);
  if (watches_undefined_)
    lowered.shadow = shadow_rule(form);
  for (size_t s = 0; s < sources.size(); ++s)
    refer(lowered, fields[s], sources[s], false);
  if (destination != UINT32_MAX)
    refer(lowered, Field::destination, destination, true);
  return lowered;
}

void Lowering::refer(Lowered &to, Field field, uint32_t value, bool defines) {
  to.references.push_back({value, field, defines, !defines});
}

void Lowering::apply_guard(Lowered &to) {
  if (instruction_->guard < 0)
    return;
  // What a guard leaves out keeps its old value, so the result is read as well.
  for (Reference &r : to.references)
    r.uses |= r.defines;
  to.instruction.inner = to.instruction.handler;
  to.instruction.handler = control::guarded;
  to.instruction.guard_negated = instruction_->guard_negated;
  to.instruction.guard = 0;
  refer(to, Field::guard, variable_of(static_cast<uint32_t>(instruction_->guard)), false);
}

void Lowering::apply_rounding(Lowered &to, Rounding rounding) {
  if (rounding == Rounding::nearest)
    return;
  to.instruction.rounding = rounding;
  if (to.instruction.handler != control::guarded) {
    to.instruction.inner = to.instruction.handler;
    to.instruction.handler = control::guarded;
  }
}

void Lowering::skip_unless_guarded() {
  if (instruction_->guard < 0)
    return;
  Lowered &around = emit(control::branch);
  around.accounts = true;
  around.flow = Flow::branch;
  around.target = position_ + 1;
  around.instruction.guard = 0;
  around.instruction.guard_negated = !instruction_->guard_negated;
  refer(around, Field::guard, variable_of(static_cast<uint32_t>(instruction_->guard)), false);
}

void Lowering::arithmetic(Opcode &opcode) {
  Rounding rounding = opcode.take_rounding();
  Type type = opcode.last_type();
  if (opcode.mnemonic == "mad" && ptx::is_float(type))
    opcode.mnemonic = "fma";
  if ((opcode.mnemonic == "min" || opcode.mnemonic == "max") && operand_count() == 4)
    opcode.mnemonic = opcode.mnemonic == "min" ? "min3" : "max3";
  // The table has .relu, .ftz and .sat right in front of the types.
  auto is_type = [](std::string_view name) {
    return ptx::type_from_name(name) != Type::none || name == "f32x2" || name == "u16x2" || name == "s16x2";
  };
  bool flush = opcode.remove("ftz"), saturate = opcode.remove("sat"), clamp = opcode.remove("relu");
  auto types = std::find_if(opcode.modifiers.begin(), opcode.modifiers.end(), is_type);
  if (saturate)
    types = opcode.modifiers.insert(types, "sat");
  if (flush)
    types = opcode.modifiers.insert(types, "ftz");
  if (clamp)
    opcode.modifiers.insert(types, "relu");
  bool chain =
      opcode.has("cc") || opcode.mnemonic == "addc" || opcode.mnemonic == "subc" || opcode.mnemonic == "madc";
  const Operation &found = operation(opcode.form());
  if (operand_count() != found.source_count + 1u)
    unsupported("with " + std::to_string(operand_count()) + " operands");
  std::vector<uint32_t> sources;
  for (size_t s = 0; s < found.source_count; ++s)
    sources.push_back(source(operand(s + 1), found.sources[s]));
  uint32_t result = destination(operand(0), found.destination);
  Lowered &lowered = emit(opcode.form(), sources, result);
  if (chain) {
    bool reads = opcode.mnemonic.back() == 'c', writes = opcode.has("cc");
    lowered.references.push_back({carry(), Field::extra, writes, reads});
  }
  lowered.counted = 1;
  apply_guard(lowered);
  apply_rounding(lowered, rounding);
  finish_destinations();
}

void Lowering::fused(const FusedProduct &fused) {
  Opcode sum(instruction_->opcode);
  std::string suffix = std::string(sum.has("ftz") ? "ftz." : "") + std::string(sum.modifiers.back());
  Type type = sum.last_type();
  const ptx::Instruction &product = body_.instructions[fused.product];
  auto negated = [&](uint32_t value) {
    uint32_t result = values_.variable(row_bytes_of(type));
    emit("neg." + std::string(name_of(type)), {value}, result);
    return result;
  };
  uint32_t a = source(body_.operands[product.first_operand + 1], type);
  uint32_t b = source(body_.operands[product.first_operand + 2], type);
  uint32_t c = source(operand(fused.addend), type);
  if (fused.negates_product)
    a = negated(a);
  if (fused.negates_addend)
    c = negated(c);
  Lowered &lowered = emit("fma." + suffix, {a, b, c}, destination(operand(0), type));
  lowered.counted = 1;
  finish_destinations();
}

LoweredFunction Lowering::lower() {
  for (position_ = 0; position_ < body_.instructions.size(); ++position_) {
    result_.start_of_position.push_back(static_cast<uint32_t>(result_.code.size()));
    instruction_ = &body_.instructions[position_];
    instruction();
  }
  // After the last instruction, and where `ret` goes: the end of the function.
  static const ptx::Instruction end{};
  ptx::Instruction last = end;
  last.opcode = "ret";
  if (!body_.instructions.empty())
    last.source = body_.instructions.back().source;
  result_.start_of_position.push_back(static_cast<uint32_t>(result_.code.size()));
  instruction_ = &last;
  instruction_class_ = InstructionClass::control;
  Lowered &leave = emit(function_index_ == 0 ? control::exit : control::return_from);
  leave.accounts = true;
  leave.flow = Flow::end;
  return std::move(result_);
}

// The name of what reads or writes shared memory at another moment than its own, or orders accesses.
static std::string_view asynchronous_name(const Opcode &opcode) {
  std::string_view name = opcode.mnemonic;
  if (name == "barrier" && opcode.has("cluster"))
    return "barrier.cluster";
  bool found = name == "cp" || name == "mbarrier" || name == "wgmma" || name == "tcgen05" ||
               name == "clusterlaunchcontrol" ||
               (name == "st" && (opcode.has("bulk") || opcode.has("async"))) ||
               (name == "red" && opcode.has("async"));
  return found ? name : "";
}

void Lowering::instruction() {
  if (auto found = fused_.find(position_); found != fused_.end()) {
    if (found->second.product != UINT32_MAX)
      fused(found->second);
    return;
  }
  Opcode opcode(instruction_->opcode);
  instruction_class_ = class_of(opcode);
  if (std::string_view name = asynchronous_name(opcode); !name.empty()) {
    program_.has_asynchronous = true;
    bool followed = name == "cp" || name == "mbarrier" || name == "st" || name == "red" || name == "wgmma";
    if (!followed && (program_.unfollowed.empty() || orders_threads(name)))
      program_.unfollowed = name;
  }
  using Family = void (Lowering::*)(Opcode &);
  static const std::unordered_map<std::string_view, Family> families = {
      {"mov", &Lowering::move},
      {"setp", &Lowering::compare},
      {"set", &Lowering::set},
      {"lop3", &Lowering::look_up},
      {"slct", &Lowering::select_by_sign},
      {"cvt", &Lowering::convert},
      {"cvta", &Lowering::convert_address},
      {"isspacep", &Lowering::test_space},
      {"ld", &Lowering::load},
      {"ldu", &Lowering::load},
      {"st", &Lowering::store},
      {"atom", &Lowering::atomic},
      {"red", &Lowering::atomic},
      {"shfl", &Lowering::lanes},
      {"vote", &Lowering::lanes},
      {"match", &Lowering::lanes},
      {"redux", &Lowering::lanes},
      {"elect", &Lowering::lanes},
      {"ldmatrix", &Lowering::move_matrix},
      {"stmatrix", &Lowering::move_matrix},
      {"movmatrix", &Lowering::move_matrix},
      {"mma", &Lowering::multiply_matrices},
      {"wmma", &Lowering::warp_matrix},
      {"wgmma", &Lowering::multiply_of_warpgroup},
      {"tcgen05", &Lowering::tensor_core},
      {"clusterlaunchcontrol", &Lowering::control_launches},
      {"activemask", &Lowering::lanes},
      {"bar", &Lowering::barrier},
      {"barrier", &Lowering::barrier},
      {"bra", &Lowering::branch},
      {"brx", &Lowering::branch},
      {"call", &Lowering::call},
      {"ret", &Lowering::control},
      {"exit", &Lowering::control},
      {"trap", &Lowering::control},
      {"membar", &Lowering::control},
      {"fence", &Lowering::control},
      {"nanosleep", &Lowering::control},
      {"prefetch", &Lowering::control},
      {"prefetchu", &Lowering::control},
      {"pmevent", &Lowering::control},
      {"griddepcontrol", &Lowering::control},
      {"setmaxnreg", &Lowering::control},
      {"discard", &Lowering::control},
      {"cp", &Lowering::copy_asynchronously},
      {"mbarrier", &Lowering::mbarrier},
      {"createpolicy", &Lowering::create_policy},
      {"brkpt", &Lowering::control},
      {"alloca", &Lowering::stack},
      {"stacksave", &Lowering::stack},
      {"stackrestore", &Lowering::stack},
      {"mapa", &Lowering::cluster},
      {"getctarank", &Lowering::cluster},
      {"applypriority", &Lowering::control},
      {"tensormap", &Lowering::change_tensor_map},
      {"tex", &Lowering::sample_texture},
      {"tld4", &Lowering::sample_texture},
      {"txq", &Lowering::query_image},
      {"suq", &Lowering::query_image},
      {"suld", &Lowering::access_surface},
      {"sust", &Lowering::access_surface},
      {"sured", &Lowering::access_surface},
      {"istypep", &Lowering::test_type},
  };
  if (opcode.mnemonic == "mov" && opcode.has("b128")) {
    move_wide();
    return;
  }
  if (names_first_of_pair(opcode))
    return;
  auto family = families.find(opcode.mnemonic);
  (this->*(family == families.end() ? &Lowering::arithmetic : family->second))(opcode);
}

} // namespace emulator
