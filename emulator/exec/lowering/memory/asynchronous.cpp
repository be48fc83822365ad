// Asynchronous copies, mbarrier objects, clusters.
#include "exec/copies/asynchronous.hpp"
#include "exec/block/cluster.hpp"
#include "exec/control/addresses.hpp"
#include "exec/control/control.hpp"
#include "exec/copies/mbarrier.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Space;
using ptx::Type;

namespace {

bool is_shared(std::string_view modifier) {
  return modifier == "shared" || modifier == "shared::cta" || modifier == "shared::cluster";
}

// What orders an operation, or says who sees it, decides nothing here: memory is always in order.
bool is_order(std::string_view modifier) {
  return modifier == "relaxed" || modifier == "release" || modifier == "acquire" || modifier == "acq_rel" ||
         modifier == "sc" || modifier == "weak" || modifier == "cta" || modifier == "cluster" ||
         modifier == "gpu" || modifier == "sys";
}

} // namespace

// A row of generic addresses for [operand], whatever its space.
uint32_t Lowering::generic_row(const Operand &memory, Space space) {
  int64_t offset;
  bool wide;
  uint32_t row = address_row(memory, space, offset, wide);
  if (space == Space::shared)
    return generic_of_shared(row, offset, wide);
  if (!wide)
    row = resized(row, Type::u32, Type::u64);
  if (offset == 0)
    return row;
  uint32_t result = values_.variable(8 * lanes_per_warp);
  emit("add.u64", {row, values_.constant(static_cast<uint64_t>(offset), 8)}, result);
  return result;
}

uint32_t Lowering::generic_of_shared(uint32_t row, int64_t offset, bool wide) {
  uint32_t result = values_.variable(8 * lanes_per_warp);
  Lowered &lowered = emit(control::shared_address);
  lowered.instruction.immediate = offset;
  lowered.instruction.wide_address = wide;
  refer(lowered, Field::a, row, false);
  refer(lowered, Field::destination, result, true);
  return result;
}

// UINT32_MAX in `rows` is an operand that is left out.
Lowered &Lowering::emit_list(Handler handler, std::vector<uint32_t> rows) {
  Lowered &lowered = emit(handler);
  for (uint32_t row : rows)
    if (row != UINT32_MAX)
      refer(lowered, Field::list, row, false);
  lowered.list = std::move(rows);
  return lowered;
}

void Lowering::nothing() { emit(control::no_operation).counted = 1; }

// What only matters where operations are deferred, or where it is checked who waits for them.
void Lowering::tell_asynchronous(Handler handler, int64_t immediate, bool checked) {
  if (!deferred_ && !(checked && checked_)) {
    nothing();
    return;
  }
  Lowered &lowered = emit(handler);
  lowered.instruction.immediate = immediate;
  lowered.counted = 1;
  apply_guard(lowered);
}

uint32_t Lowering::group_count() const {
  const Operand &groups = operand(0);
  if (groups.kind != Kind::integer || groups.value < 0 || groups.value > INT32_MAX)
    unsupported("of a number that is no constant");
  return static_cast<uint32_t>(groups.value);
}

// commit_group, wait_group and the like; false for what is none of them.
bool Lowering::tell_of_groups(Opcode &opcode, Track track) {
  if (opcode.remove("commit_group")) {
    tell_asynchronous(asynchronous::commit, static_cast<int64_t>(track), true);
  } else if (opcode.remove("wait_all")) {
    tell_asynchronous(asynchronous::wait, asynchronous::waits_for_all(track), true);
  } else if (opcode.remove("wait_group")) {
    tell_asynchronous(asynchronous::wait, asynchronous::waits(track, group_count(), opcode.remove("read")),
                      true);
  } else {
    return false;
  }
  return true;
}

void Lowering::copy_asynchronously(Opcode &opcode) {
  bool reduces = opcode.mnemonic == "cp" && opcode.remove("reduce");
  if (!opcode.remove("async"))
    unsupported();
  if (opcode.has("tensor")) {
    copy_tensor(opcode, reduces);
    return;
  }
  if (opcode.remove("bulk")) {
    copy_bulk(opcode, reduces);
    return;
  }
  if (tell_of_groups(opcode, Track::copies))
    return;
  if (opcode.remove("mbarrier")) {
    // Where the copies of this thread have been done when it says so: without .noinc the arrival that is to
    // come is added first, so the count ends where it was.
    if (!opcode.remove("arrive"))
      unsupported();
    bool counts = opcode.remove("noinc");
    program_.communicates = true;
    const bool later = deferred_ || checked_;
    if (!counts && !later) {
      nothing();
      return;
    }
    uint32_t address = generic_row(operand(0), opcode.modifiers[0] == "b64" ? Space::generic : Space::shared);
    Lowered &lowered = later ? emit_list(asynchronous::arrive_after_copies, {address})
                             : emit_list(mbarrier::arrive, {address, UINT32_MAX, UINT32_MAX});
    lowered.instruction.immediate = later && counts;
    lowered.counted = 1;
    apply_guard(lowered);
    return;
  }
  bool hint = false;
  for (std::string_view m : opcode.modifiers) {
    hint |= m == "L2::cache_hint";
    if (!is_shared(m) && m != "global" && m != "ca" && m != "cg" && m.substr(0, 4) != "L2::")
      unsupported();
  }
  size_t operands = operand_count() - (hint ? 1 : 0);
  if (operands < 3 || operands > 4 || operand(2).kind != Kind::integer)
    unsupported("with these operands");
  int64_t bytes = operand(2).value;
  if (bytes != 4 && bytes != 8 && bytes != 16)
    unsupported("of " + std::to_string(bytes) + " bytes");
  uint32_t to = generic_row(operand(0), Space::shared), from = generic_row(operand(1), Space::global);
  uint32_t wanted = UINT32_MAX, ignored = UINT32_MAX;
  if (operands == 4) {
    const Operand &last = operand(3);
    bool predicate = last.kind == Kind::reg && body_.registers[last.index] == Type::pred;
    (predicate ? ignored : wanted) = source(last, predicate ? Type::pred : Type::u32);
  }
  Lowered &lowered = emit_list(asynchronous::copy, {to, from, wanted, ignored});
  lowered.instruction.immediate = bytes;
  lowered.instruction.is_copy = true;
  lowered.counted = 1;
  apply_guard(lowered);
}

void Lowering::copy_bulk(Opcode &opcode, bool reduces) {
  if (tell_of_groups(opcode, Track::bulk))
    return;
  if (opcode.has("prefetch")) {
    nothing();
    return;
  }
  std::vector<Space> spaces;
  bool signals = false, hint = false, multicast = false, masks = false, keeps_subnormal = false;
  asynchronous::Operator op = asynchronous::Operator::replace;
  Type type = Type::none;
  static const std::pair<std::string_view, asynchronous::Operator> operators[] = {
      {"add", asynchronous::Operator::add},       {"min", asynchronous::Operator::minimum},
      {"max", asynchronous::Operator::maximum},   {"inc", asynchronous::Operator::increment},
      {"dec", asynchronous::Operator::decrement}, {"and", asynchronous::Operator::bit_and},
      {"or", asynchronous::Operator::bit_or},     {"xor", asynchronous::Operator::bit_xor},
  };
  for (std::string_view m : opcode.modifiers) {
    bool found = false;
    for (const auto &[name, meaning] : operators)
      if (reduces && m == name)
        op = meaning, found = true;
    if (found)
      continue;
    if (is_shared(m))
      spaces.push_back(Space::shared);
    else if (m == "global")
      spaces.push_back(Space::global);
    else if (m == "mbarrier::complete_tx::bytes")
      signals = true;
    else if (m == "L2::cache_hint")
      hint = true;
    else if (m == "multicast::cluster")
      multicast = true;
    else if (m == "cp_mask")
      masks = true;
    else if (reduces && m == "noftz")
      keeps_subnormal = true;
    else if (reduces && ptx::type_from_name(m) != Type::none)
      type = ptx::type_from_name(m);
    else if (m != "bulk_group")
      unsupported();
  }
  size_t expected = 3u + (signals ? 1 : 0) + (multicast ? 1 : 0) + (hint ? 1 : 0) + (masks ? 1 : 0);
  if (spaces.size() != 2 || operand_count() != expected || (reduces && op == asynchronous::Operator::replace))
    unsupported("with " + std::to_string(operand_count()) + " operands");
  bool halves = type == Type::f16 || type == Type::bf16;
  if (reduces && (!asynchronous::can_combine(op, type) || type == Type::f16x2 || type == Type::bf16x2 ||
                  (halves && spaces[0] != Space::global) ||
                  keeps_subnormal != (halves && op == asynchronous::Operator::add)))
    unsupported();
  program_.communicates = true;
  program_.orders_blocks |= reduces;
  uint32_t to = generic_row(operand(0), spaces[0]), from = generic_row(operand(1), spaces[1]);
  uint32_t bytes = source(operand(2), Type::u32);
  size_t next = 3;
  uint32_t signal = signals ? generic_row(operand(next++), Space::shared) : UINT32_MAX;
  uint32_t blocks = multicast ? source(operand(next++), Type::u16) : UINT32_MAX;
  next += hint ? 1 : 0;
  uint32_t mask = masks ? source(operand(next), Type::u16) : UINT32_MAX;
  Lowered &lowered = reduces ? emit_list(asynchronous::reduce_bulk, {to, from, bytes, signal})
                             : emit_list(asynchronous::copy_bulk, {to, from, bytes, signal, blocks, mask});
  lowered.instruction.immediate = reduces ? asynchronous::reduction(op, type) : 0;
  lowered.instruction.is_copy = true;
  lowered.counted = 1;
  apply_guard(lowered);
}

// st.async and red.async: into another block's shared memory, counted by an mbarrier there; or into global
// memory.
void Lowering::store_asynchronously(Opcode &opcode) {
  asynchronous::Operator op = asynchronous::Operator::replace;
  uint32_t elements = 1;
  Type type = Type::none;
  static const std::pair<std::string_view, asynchronous::Operator> operators[] = {
      {"add", asynchronous::Operator::add},       {"min", asynchronous::Operator::minimum},
      {"max", asynchronous::Operator::maximum},   {"inc", asynchronous::Operator::increment},
      {"dec", asynchronous::Operator::decrement}, {"and", asynchronous::Operator::bit_and},
      {"or", asynchronous::Operator::bit_or},     {"xor", asynchronous::Operator::bit_xor},
  };
  bool signals = false, shared = false;
  for (std::string_view m : opcode.modifiers) {
    bool found = false;
    for (const auto &[name, meaning] : operators)
      if (opcode.mnemonic == "red" && m == name)
        op = meaning, found = true;
    if (found || is_order(m) || m == "async" || m == "mmio" || m == "global")
      continue;
    if (m == "v2" || m == "v4")
      elements = static_cast<uint32_t>(m[1] - '0');
    else if (m == "mbarrier::complete_tx::bytes")
      signals = true;
    else if (is_shared(m))
      shared = true;
    else if ((type = ptx::type_from_name(m)) == Type::none)
      unsupported();
  }
  bool reduces = opcode.mnemonic == "red";
  uint32_t bytes = type == Type::none ? 0 : ptx::size_bytes(type);
  bool wrong = bytes < (signals || reduces ? 4 : 1) || bytes > 8 || operand_count() != (signals ? 3u : 2u) ||
               reduces != (op != asynchronous::Operator::replace);
  if (wrong)
    unsupported();
  program_.communicates = true;
  program_.orders_blocks |= !shared;
  const Operand &value = operand(1);
  if (elements > 1 && (value.kind != Kind::vector || value.count != elements))
    unsupported("with a list of another length");
  std::vector<uint32_t> rows{generic_row(operand(0), shared ? Space::shared : Space::global),
                             signals ? generic_row(operand(2), Space::shared) : UINT32_MAX};
  for (uint32_t e = 0; e < elements; ++e)
    rows.push_back(source(elements > 1 ? element(value, e) : value, type));
  Lowered &lowered = emit_list(asynchronous::store, std::move(rows));
  lowered.instruction.immediate = asynchronous::reduction(op, type) | int64_t{elements} << 16;
  lowered.instruction.is_copy = true;
  lowered.counted = 1;
  apply_guard(lowered);
}

void Lowering::mbarrier(Opcode &opcode) {
  Space space = Space::generic;
  std::vector<std::string_view> rest;
  const uint8_t order = opcode.has("relaxed") ? 0 : releases;
  for (std::string_view m : opcode.modifiers) {
    if (is_shared(m))
      space = Space::shared;
    else if (!is_order(m) && m != "b64")
      rest.push_back(m);
  }
  opcode.modifiers = rest;
  program_.communicates = true;
  auto finish = [&](Lowered &lowered) {
    lowered.counted = 1;
    apply_guard(lowered);
    finish_destinations();
  };
  if (opcode.remove("pending_count")) {
    uint32_t state = source(operand(1), Type::u64), count = values_.variable(8 * lanes_per_warp);
    emit("and.b64", {state, values_.constant(mbarrier::pending_mask, 8)}, count);
    finish(emit("mov.b32", {resized(count, Type::u64, Type::u32)}, destination(operand(0), Type::b32)));
    return;
  }
  if (opcode.remove("test_wait") || opcode.has("try_wait")) {
    bool waits = opcode.remove("try_wait"), parity = opcode.remove("parity");
    if (!opcode.modifiers.empty() || operand_count() < 3)
      unsupported();
    if (waits)
      skip_unless_guarded();
    uint32_t address = generic_row(operand(1), space);
    uint32_t phase = source(operand(2), parity ? Type::u32 : Type::u64);
    uint32_t result = destination(operand(0), Type::pred);
    if (waits) {
      // Woken, it is looked at again: its account comes before it.
      Lowered &account = emit(control::fall_through);
      account.accounts = true;
      account.counted = 1;
    }
    Lowered &lowered = emit_list(waits ? mbarrier::try_wait : mbarrier::test_wait, {address, phase});
    lowered.instruction.immediate = parity;
    refer(lowered, Field::destination, result, true);
    lowered.references.back().uses = true; // other lanes keep theirs
    lowered.accounts = waits;
    if (!waits)
      finish(lowered);
    return;
  }
  bool init = opcode.remove("init"), inval = opcode.remove("inval");
  bool expect = opcode.remove("expect_tx");
  bool complete = opcode.remove("complete_tx");
  bool arrive = opcode.remove("arrive"), drop = opcode.remove("arrive_drop");
  bool no_complete = opcode.remove("noComplete");
  if (!opcode.modifiers.empty() ||
      init + inval + arrive + drop + (expect && !arrive && !drop) + complete != 1)
    unsupported();
  if (arrive || drop) {
    bool returns = operand(0).kind != Kind::memory;
    size_t first = returns ? 1 : 0;
    uint32_t address = generic_row(operand(first), space);
    uint32_t number = operand_count() > first + 1 ? source(operand(first + 1), Type::u32) : UINT32_MAX;
    uint32_t result =
        returns && operand(0).kind != Kind::sink ? destination(operand(0), Type::u64) : UINT32_MAX;
    Lowered &lowered =
        emit_list(mbarrier::arrive, {address, expect ? UINT32_MAX : number, expect ? number : UINT32_MAX});
    lowered.instruction.immediate =
        (drop ? int64_t{mbarrier::drops} : 0) | (no_complete ? int64_t{mbarrier::completes_nothing} : 0);
    lowered.instruction.order = order;
    if (result != UINT32_MAX) {
      refer(lowered, Field::destination, result, true);
      lowered.references.back().uses = true;
    }
    finish(lowered);
    return;
  }
  uint32_t address = generic_row(operand(0), space);
  if (inval) {
    finish(emit_list(mbarrier::invalidate, {address}));
    return;
  }
  uint32_t number = source(operand(1), Type::u32);
  Lowered &lowered = emit_list(init ? mbarrier::initialise : mbarrier::expect_bytes, {address, number});
  lowered.instruction.immediate = complete ? -1 : 1;
  finish(lowered);
}

void Lowering::cluster(Opcode &opcode) {
  if (opcode.mnemonic == "barrier") {
    bool arrives = opcode.has("arrive"), waits = opcode.has("wait");
    if (!arrives && !waits)
      unsupported();
    program_.communicates = true;
    skip_unless_guarded();
    Lowered &lowered = emit(control::cluster_barrier);
    lowered.instruction.immediate = (arrives ? 1 : 0) | (waits ? 2 : 0);
    lowered.accounts = true;
    lowered.counted = 1;
    return;
  }
  Space space = Space::generic;
  Type type = opcode.last_type();
  for (std::string_view m : opcode.modifiers)
    if (is_shared(m))
      space = Space::shared;
  if (type != Type::u32 && type != Type::u64)
    unsupported();
  bool maps = opcode.mnemonic == "mapa";
  uint32_t address = source(operand(1), type);
  uint32_t rank = maps ? source(operand(2), Type::u32) : UINT32_MAX;
  uint32_t result = destination(operand(0), maps ? type : Type::u32);
  Lowered &lowered = emit(maps ? control::map_address : control::rank_of_address);
  lowered.instruction.space = space;
  lowered.instruction.wide_address = type == Type::u64;
  refer(lowered, Field::a, address, false);
  if (maps)
    refer(lowered, Field::b, rank, false);
  refer(lowered, Field::destination, result, true);
  lowered.references.back().uses = true;
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

} // namespace emulator
