// Moves, comparisons, conversions.
#include <algorithm>

#include "exec/control/addresses.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

// mov.v2, mov.v4: all elements are read before one is written.
void Lowering::move_vector(const Opcode &opcode, uint32_t elements) {
  Type type = opcode.last_type();
  const Operand &to = operand(0);
  const Operand &from = operand(1);
  uint32_t bytes = ptx::size_bytes(type);
  if (to.kind != Kind::vector || to.count != elements || bytes < 2 || bytes * elements > 16 ||
      type == Type::pred)
    unsupported();
  std::string form = "mov." + std::string(name_of(type));
  std::vector<uint32_t> values;
  for (uint32_t e = 0; e < elements; ++e) {
    uint32_t value;
    if (from.kind == Kind::special)
      value = special_source(std::string(body_.names[from.index]) + "." + "xyzw"[e], type);
    else if (from.kind == Kind::vector && from.count == elements)
      value = source(element(from, e), type);
    else
      unsupported();
    values.push_back(values_.variable(row_bytes_of(type)));
    emit(form, {value}, values.back());
  }
  for (uint32_t e = 0; e < elements; ++e) {
    if (element(to, e).kind == Kind::sink)
      continue;
    Lowered &copy = emit(form, {values[e]}, destination(element(to, e), type));
    copy.counted = e == 0;
    apply_guard(copy);
  }
  finish_destinations();
}

void Lowering::move(Opcode &opcode) {
  if (opcode.modifiers.size() == 2 && (opcode.has("v2") || opcode.has("v4")))
    return move_vector(opcode, opcode.has("v2") ? 2 : 4);
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

// One test, or, for pairs, one of the low and one of the high halves.
std::vector<uint32_t> Lowering::tests(Opcode opcode) {
  Type type = opcode.last_type();
  opcode.modifiers[0] = order_name(opcode.modifiers[0]);
  opcode.mnemonic = "setp";
  uint32_t a = source(operand(1), type), b = source(operand(2), type);
  std::vector<uint32_t> results;
  auto test = [&](uint32_t left, uint32_t right) {
    results.push_back(values_.variable(4));
    Lowered &lowered = emit(opcode.form(), {left, right}, results.back());
    lowered.counted = results.size() == 1 ? 1 : 0;
  };
  if (type != Type::f16x2 && type != Type::bf16x2) {
    test(a, b);
    return results;
  }
  opcode.modifiers.back() = type == Type::f16x2 ? "f16" : "bf16";
  auto halves = [&](uint32_t whole) {
    std::vector<uint32_t> list{values_.variable(row_bytes_of(Type::b16)),
                               values_.variable(row_bytes_of(Type::b16))};
    Lowered &unpack = emit("unpack.32x2", {whole}, UINT32_MAX);
    for (uint32_t value : list)
      refer(unpack, Field::list, value, true);
    unpack.list = list;
    return list;
  };
  std::vector<uint32_t> left = halves(a), right = halves(b);
  test(left[0], right[0]);
  test(left[1], right[1]);
  return results;
}

void Lowering::compare(Opcode &opcode) {
  if (opcode.modifiers.size() < 2)
    unsupported();
  std::string_view boolean;
  if (is_boolean(opcode.modifiers[1])) {
    boolean = opcode.modifiers[1];
    opcode.remove(boolean);
  }
  const Operand &to = operand(0);
  Type type = opcode.last_type();
  bool pairs = type == Type::f16x2 || type == Type::bf16x2;
  if (boolean.empty() && to.kind != Kind::pair && !pairs) {
    uint32_t a = source(operand(1), type), b = source(operand(2), type);
    opcode.modifiers[0] = order_name(opcode.modifiers[0]);
    Lowered &test = emit(opcode.form(), {a, b}, destination(to, Type::pred));
    test.counted = 1;
    apply_guard(test);
    return;
  }
  if (pairs && to.kind != Kind::pair)
    unsupported("with one result");
  std::vector<uint32_t> results = tests(opcode);
  uint32_t p = boolean.empty() ? results[0] : combined(results[0], boolean, operand(3), false);
  uint32_t q = UINT32_MAX;
  if (pairs) {
    q = boolean.empty() ? results[1] : combined(results[1], boolean, operand(3), false);
  } else if (to.kind == Kind::pair) {
    if (boolean.empty()) {
      q = values_.variable(4);
      emit("not.pred", {results[0]}, q);
    } else {
      q = combined(results[0], boolean, operand(3), true);
    }
  }
  apply_guard(emit("mov.pred", {p}, destination(to.kind == Kind::pair ? element(to, 0) : to, Type::pred)));
  if (q != UINT32_MAX)
    apply_guard(emit("mov.pred", {q}, destination(element(to, 1), Type::pred)));
}

// lop3.or, lop3.and: a second result, (d != 0) or / and q.
void Lowering::look_up(Opcode &opcode) {
  if (opcode.modifiers.size() != 2 || (opcode.modifiers[0] != "or" && opcode.modifiers[0] != "and")) {
    arithmetic(opcode);
    return;
  }
  const Operand &to = operand(0);
  if (to.kind != Kind::pair || operand_count() != 6)
    unsupported();
  std::vector<uint32_t> from;
  for (uint32_t k = 1; k <= 4; ++k)
    from.push_back(source(operand(k), Type::b32));
  uint32_t value = values_.variable(row_bytes_of(Type::b32));
  Lowered &lookup = emit("lop3.b32", {from[0], from[1], from[2], from[3]}, value);
  lookup.counted = 1;
  uint32_t any = values_.variable(4);
  emit("setp.ne.u32", {value, values_.constant(0, 4)}, any);
  uint32_t p = combined(any, opcode.modifiers[0], operand(5), false);
  if (element(to, 0).kind != Kind::sink)
    apply_guard(emit("mov.b32", {value}, destination(element(to, 0), Type::b32)));
  apply_guard(emit("mov.pred", {p}, destination(element(to, 1), Type::pred)));
  finish_destinations();
}

void Lowering::set(Opcode &opcode) {
  if (opcode.modifiers.size() < 3)
    unsupported();
  Type type = opcode.last_type();
  Type result_type = ptx::type_from_name(opcode.modifiers[opcode.modifiers.size() - 2]);
  opcode.modifiers.erase(opcode.modifiers.end() - 2);
  std::string_view boolean;
  if (is_boolean(opcode.modifiers[1])) {
    boolean = opcode.modifiers[1];
    opcode.remove(boolean);
  }
  bool pairs = type == Type::f16x2 || type == Type::bf16x2;
  auto is = [&](Type one, Type other) { return result_type == one || result_type == other; };
  // What a true comparison gives: 1.0, or all ones, in the upper half as well.
  uint32_t on;
  if (is(Type::u32, Type::s32))
    on = 0xffffffff;
  else if (result_type == Type::f32 && type != Type::f16 && type != Type::bf16 && !pairs)
    on = 0x3f800000;
  else if (is(Type::u16, Type::s16) && !pairs)
    on = 0xffff;
  else if (result_type == (pairs ? Type::f16x2 : Type::f16))
    on = 0x3c003c00;
  else if (result_type == (pairs ? Type::bf16x2 : Type::bf16))
    on = 0x3f803f80;
  else
    unsupported();
  std::vector<uint32_t> results = tests(opcode);
  if (!boolean.empty())
    for (uint32_t &result : results)
      result = combined(result, boolean, operand(3), false);
  uint32_t size = ptx::size_bytes(result_type);
  std::string name = size == 2 ? "selp.b16" : "selp.b32";
  auto constant = [&](uint32_t bits) { return values_.constant(size == 2 ? bits & 0xffff : bits, size); };
  if (!pairs) {
    apply_guard(emit(name, {constant(on), constant(0), results[0]}, destination(operand(0), result_type)));
  } else {
    uint32_t low = values_.variable(row_bytes_of(Type::b32)),
             high = values_.variable(row_bytes_of(Type::b32));
    emit(name, {constant(on & 0xffff), constant(0), results[0]}, low);
    emit(name, {constant(on & 0xffff0000), constant(0), results[1]}, high);
    apply_guard(emit("or.b32", {low, high}, destination(operand(0), result_type)));
  }
  finish_destinations();
}

void Lowering::select_by_sign(Opcode &opcode) {
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

// cvt.rs of four: the sources of the last two, with what the first two became. Those take the random bits
// that lie above, of formats of 4 bits byte by byte.
std::vector<uint32_t> Lowering::two_of_four(const std::string &form, const Operation &found) {
  const Operand &list = operand(1);
  auto number = [&](size_t n) { return source(element(list, n), Type::f32); };
  uint32_t size = ptx::size_bytes(found.destination), random = source(operand(2), Type::b32);
  uint32_t upper = values_.variable(row_bytes_of(Type::b32)),
           first = values_.variable(row_bytes_of(found.destination));
  emit("shr.u32", {random, values_.constant(size == 2 ? 8 : 16, 4)}, upper);
  emit(form, {number(0), number(1), upper, values_.constant(0, size)}, first);
  return {number(2), number(3), random, first};
}

void Lowering::convert(Opcode &opcode) {
  // The types come last: result, source and, of cvt.pack, what is shifted in. Before them, in the order of
  // the table's names, what the operation needs to know.
  static constexpr std::string_view named[] = {
      "pack", "rni", "rzi", "rmi", "rpi", "rna", "rs", "ftz", "relu", "satfinite", "scaled::n2::ue8m0",
      "sat"};
  Rounding rounding = opcode.take_rounding();
  std::string form = "cvt";
  for (std::string_view name : named)
    if (opcode.remove(name))
      form.append(".").append(name);
  for (std::string_view type : opcode.modifiers)
    form.append(".").append(type);
  const Operation &found = operation(form);
  bool four = operand_count() == 3 && operand(1).kind == Kind::vector && operand(1).count == 4;
  if (operand_count() != (four ? 3u : found.source_count + 1u) || four != (found.source_count == 4))
    unsupported("with " + std::to_string(operand_count()) + " operands");
  std::vector<uint32_t> sources;
  for (size_t s = 0; s < found.source_count && !four; ++s)
    sources.push_back(source(operand(s + 1), found.sources[s]));
  if (four)
    sources = two_of_four(form, found);
  Lowered &lowered = emit(form, sources, destination(operand(0), found.destination));
  lowered.counted = 1;
  apply_guard(lowered);
  apply_rounding(lowered, rounding);
  finish_destinations();
}

void Lowering::convert_address(Opcode &opcode) {
  bool test = opcode.mnemonic == "isspacep";
  bool to = opcode.remove("to");
  ptx::Space space = ptx::Space::global;
  for (std::string_view modifier : opcode.modifiers) {
    if (modifier == "shared" || modifier == "shared::cta" || modifier == "shared::cluster")
      space = ptx::Space::shared;
    else if (modifier == "local")
      space = ptx::Space::local;
    else if (modifier != "global" && modifier != "param::entry" && modifier != "u64" &&
             (test || (modifier != "const" && modifier != "param")))
      unsupported();
  }
  uint32_t value = source(operand(1), Type::u64);
  Handler handler = test ? control::is_space : to ? control::from_generic : control::to_generic;
  bool windowed = space == ptx::Space::shared || space == ptx::Space::local;
  uint32_t result = destination(operand(0), test ? Type::pred : Type::u64);
  Lowered &lowered = test || windowed ? emit(handler) : emit("mov.u64", {value}, result);
  if (test || windowed) {
    lowered.shadow.kind = ShadowKind::any;
    lowered.instruction.space = space;
    refer(lowered, Field::a, value, false);
    refer(lowered, Field::destination, result, true);
  }
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

} // namespace emulator
