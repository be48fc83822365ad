// Moves, comparisons, conversions.
#include <algorithm>

#include "exec/decode/lowering.hpp"
#include "exec/machine/control.hpp"

namespace emulator {

using ptx::Type;

void Lowering::move(Opcode opcode) {
  if (opcode.modifiers.size() != 1)
    unsupported();
  Type type = opcode.last_type();
  const Operand &to = operand(0);
  const Operand &from = operand(1);
  auto parts_name = [&](const Operand &list) {
    return std::to_string(8 * ptx::size_bytes(type)) + "x" + std::to_string(list.count);
  };
  auto part_type = [&](const Operand &list) {
    uint32_t size = list.count ? ptx::size_bytes(type) / list.count : 0;
    if (ptx::size_bytes(type) > 8 || size == 0 || size * list.count != ptx::size_bytes(type))
      unsupported("of these parts");
    return size == 1 ? Type::b8 : size == 2 ? Type::b16 : Type::b32;
  };
  if (from.kind == Kind::vector) {
    Type part = part_type(from);
    std::vector<uint32_t> list;
    for (uint32_t p = 0; p < from.count; ++p)
      list.push_back(source(element(from, p), part));
    uint32_t result = destination(to, type);
    Lowered &pack = emit("pack." + parts_name(from), {}, result);
    for (uint32_t value : list)
      refer(pack, Field::list, value, false);
    pack.list = std::move(list);
    pack.counted = 1;
    apply_guard(pack);
  } else if (to.kind == Kind::vector) {
    Type part = part_type(to);
    uint32_t whole = source(from, type);
    std::vector<uint32_t> list;
    for (uint32_t p = 0; p < to.count; ++p)
      list.push_back(element(to, p).kind == Kind::sink ? UINT32_MAX : destination(element(to, p), part));
    Lowered &unpack = emit("unpack." + parts_name(to), {whole}, UINT32_MAX);
    for (uint32_t value : list)
      if (value != UINT32_MAX)
        refer(unpack, Field::list, value, true);
    unpack.list = std::move(list);
    unpack.counted = 1;
    apply_guard(unpack);
  } else {
    uint32_t value = source(from, type);
    Lowered &copy = emit(opcode.form(), {value}, destination(to, type));
    copy.counted = 1;
    apply_guard(copy);
  }
  finish_destinations();
}

uint32_t Lowering::combined(uint32_t predicate, std::string_view boolean, const Operand &with,
                            bool inverted) {
  if (inverted) {
    uint32_t opposite = values_.variable(4);
    emit("not.pred", {predicate}, opposite);
    predicate = opposite;
  }
  uint32_t result = values_.variable(4);
  uint32_t other = source(with, Type::pred);
  emit(std::string(boolean) + ".pred", {predicate, other}, result);
  return result;
}

namespace {

bool is_boolean(std::string_view modifier) {
  return modifier == "and" || modifier == "or" || modifier == "xor";
}

// lo, ls, hi and hs compare as unsigned.
std::string_view order_name(std::string_view order) {
  return order == "lo" ? "lt" : order == "ls" ? "le" : order == "hi" ? "gt" : order == "hs" ? "ge" : order;
}

} // namespace

void Lowering::compare(Opcode opcode) {
  if (opcode.modifiers.size() < 2)
    unsupported();
  Type type = opcode.last_type();
  std::string_view boolean;
  if (is_boolean(opcode.modifiers[1])) {
    boolean = opcode.modifiers[1];
    opcode.remove(boolean);
  }
  opcode.modifiers[0] = order_name(opcode.modifiers[0]);
  uint32_t a = source(operand(1), type), b = source(operand(2), type);
  const Operand &to = operand(0);
  const Operand &first = to.kind == Kind::pair ? element(to, 0) : to;
  bool simple = boolean.empty() && to.kind != Kind::pair;
  uint32_t result = simple ? destination(to, Type::pred) : values_.variable(4);
  Lowered &test = emit(opcode.form(), {a, b}, result);
  test.counted = 1;
  if (simple) {
    apply_guard(test);
    return;
  }
  uint32_t p = boolean.empty() ? result : combined(result, boolean, operand(3), false);
  uint32_t q = UINT32_MAX;
  if (to.kind == Kind::pair) {
    if (boolean.empty()) {
      q = values_.variable(4);
      emit("not.pred", {result}, q);
    } else {
      q = combined(result, boolean, operand(3), true);
    }
  }
  apply_guard(emit("mov.pred", {p}, destination(first, Type::pred)));
  if (q != UINT32_MAX)
    apply_guard(emit("mov.pred", {q}, destination(element(to, 1), Type::pred)));
}

void Lowering::set(Opcode opcode) {
  if (opcode.modifiers.size() < 3)
    unsupported();
  Type type = opcode.last_type();
  Type result_type = ptx::type_from_name(opcode.modifiers[opcode.modifiers.size() - 2]);
  if (result_type != Type::u32 && result_type != Type::s32 && result_type != Type::f32)
    unsupported();
  opcode.modifiers.erase(opcode.modifiers.end() - 2);
  std::string_view boolean;
  if (is_boolean(opcode.modifiers[1])) {
    boolean = opcode.modifiers[1];
    opcode.remove(boolean);
  }
  opcode.modifiers[0] = order_name(opcode.modifiers[0]);
  opcode.mnemonic = "setp";
  uint32_t a = source(operand(1), type), b = source(operand(2), type);
  uint32_t p = values_.variable(4);
  emit(opcode.form(), {a, b}, p);
  if (!boolean.empty())
    p = combined(p, boolean, operand(3), false);
  uint32_t on = values_.constant(result_type == Type::f32 ? 0x3f800000 : 0xffffffff, 4);
  Lowered &select = emit("selp.b32", {on, values_.constant(0, 4), p}, destination(operand(0), Type::b32));
  select.counted = 1;
  apply_guard(select);
}

void Lowering::select_by_sign(Opcode opcode) {
  bool flush = opcode.remove("ftz");
  if (opcode.modifiers.size() != 2)
    unsupported();
  Type type = ptx::type_from_name(opcode.modifiers[0]), by = ptx::type_from_name(opcode.modifiers[1]);
  if (by != Type::s32 && by != Type::f32)
    unsupported();
  uint32_t a = source(operand(1), type), b = source(operand(2), type), c = source(operand(3), by);
  uint32_t p = values_.variable(4);
  emit(std::string("setp.ge.") + (flush ? "ftz." : "") + std::string(name_of(by)),
       {c, values_.constant(0, 4)}, p);
  Lowered &select = emit("selp." + std::string(name_of(type)), {a, b, p}, destination(operand(0), type));
  select.counted = 1;
  apply_guard(select);
  finish_destinations();
}

void Lowering::convert(Opcode opcode) {
  std::vector<Type> types;
  std::string integer_rounding;
  Rounding rounding = Rounding::nearest;
  bool flush = false, saturate = false;
  for (std::string_view modifier : opcode.modifiers) {
    if (Type type = ptx::type_from_name(modifier); type != Type::none)
      types.push_back(type);
    else if (modifier == "rni" || modifier == "rzi" || modifier == "rmi" || modifier == "rpi")
      integer_rounding = "." + std::string(modifier);
    else if (modifier == "rz")
      rounding = Rounding::zero;
    else if (modifier == "rm")
      rounding = Rounding::down;
    else if (modifier == "rp")
      rounding = Rounding::up;
    else if (modifier == "ftz")
      flush = true;
    else if (modifier == "sat")
      saturate = true;
    else if (modifier != "rn")
      unsupported();
  }
  if (types.size() != 2 || operand_count() != 2)
    unsupported();
  std::string form = "cvt" + integer_rounding + (flush ? ".ftz" : "") + (saturate ? ".sat" : "") + "." +
                     std::string(name_of(types[0])) + "." + std::string(name_of(types[1]));
  uint32_t value = source(operand(1), types[1]);
  Lowered &lowered = emit(form, {value}, destination(operand(0), types[0]));
  lowered.counted = 1;
  apply_guard(lowered);
  if (rounding != Rounding::nearest) {
    lowered.instruction.rounding = rounding;
    if (lowered.instruction.handler != control::guarded) {
      lowered.instruction.inner = lowered.instruction.handler;
      lowered.instruction.handler = control::guarded;
    }
  }
  finish_destinations();
}

void Lowering::convert_address(Opcode opcode) {
  bool test = opcode.mnemonic == "isspacep";
  bool to = opcode.remove("to");
  ptx::Space space = ptx::Space::global;
  for (std::string_view modifier : opcode.modifiers) {
    if (modifier == "shared" || modifier == "shared::cta" || modifier == "shared::cluster")
      space = ptx::Space::shared;
    else if (modifier == "local")
      space = ptx::Space::local;
    else if (test && (modifier == "const" || modifier == "param"))
      unsupported();
    else if (modifier != "global" && modifier != "const" && modifier != "param" &&
             modifier != "param::entry" && modifier != "u64")
      unsupported();
  }
  uint32_t value = source(operand(1), Type::u64);
  Handler handler = test ? control::is_space : to ? control::from_generic : control::to_generic;
  bool windowed = space == ptx::Space::shared || space == ptx::Space::local;
  uint32_t result = destination(operand(0), test ? Type::pred : Type::u64);
  Lowered &lowered = test || windowed ? emit(handler) : emit("mov.u64", {value}, result);
  if (test || windowed) {
    lowered.instruction.space = space;
    refer(lowered, Field::a, value, false);
    refer(lowered, Field::destination, result, true);
  }
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

} // namespace emulator
