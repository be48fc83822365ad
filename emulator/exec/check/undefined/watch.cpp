#include "exec/check/undefined/watch.hpp"

#include <algorithm>

#include "exec/check/findings.hpp"
#include "exec/check/undefined/operands.hpp"

namespace emulator {

namespace undefined {

void report(Warp &w, const Instruction *i, FindingKind kind, uint32_t lanes, const ShadowOrigin &from) {
  const Dim3 &grid = w.launch->request->grid;
  const uint32_t place = static_cast<uint32_t>(i - w.program->code.data());
  const bool was_read = from.instruction != ShadowOrigin::none;
  FoundExample example;
  example.block = w.position[0] + uint64_t{grid.x} * (w.position[1] + uint64_t{grid.y} * w.position[2]);
  example.first_thread = example.second_thread = w.index * lanes_per_warp + first_lane(lanes);
  example.space = from.space;
  example.offset = from.offset;
  example.bytes = from.bytes;
  example.count = count_lanes(lanes);
  note(w.worker->found, {Check::init, kind, was_read ? from.instruction : place, place, false, false},
       example);
}

void report_row(Warp &w, const Instruction *i, FindingKind kind, const ShadowOperand &row, uint32_t lanes) {
  if (row.offset == no_offset || (lanes &= undefined_lanes(w, row)) == 0)
    return;
  report(w, i, kind, lanes, origin(w, row));
  clear(w, row, lanes);
}

} // namespace undefined

using namespace undefined;

namespace {

// What a lane of the result has undefined, of `any`.
uint64_t any_of(const ShadowForm &form, const uint64_t *sources, uint32_t count, uint32_t result_bits) {
  uint64_t all = 0;
  if (form.joins_halves && count >= 2)
    return (sources[0] ? 0xffff0000u : 0u) | (sources[1] ? 0xffffu : 0u);
  for (uint32_t s = 0; s < count; ++s)
    all |= sources[s];
  if (form.part_bits == 0)
    return all ? ones(result_bits) : 0;
  uint64_t found = 0;
  for (uint32_t at = 0; at < result_bits; at += form.part_bits)
    if (all >> at & ones(form.part_bits))
      found |= ones(form.part_bits) << at;
  return found;
}

// Executes the instruction again with other values of its sources, and puts everything back.
class Again {
public:
  Again(Warp &w, const Instruction *i, const ShadowForm &form, const Operands &operands, const Before &before)
      : w_(w), i_(i), form_(form), operands_(operands), before_(before) {
    for (uint32_t r = 0; r < operands.result_count; ++r)
      take(w, operands.results[r], real_[r]);
  }
  template <typename Value> void run(Value value, Row *results) {
    for (uint32_t s = 0; s < operands_.source_count; ++s) {
      Row row = before_.value[s];
      const uint32_t bytes = row_bytes(operands_.sources[s]);
      for (uint32_t b = 0; b < bytes; ++b)
        row.bytes[b] = value(s, row.bytes[b], before_.shadow[s].bytes[b]);
      give(w_, operands_.sources[s], row);
    }
    execute(w_, i_, form_.handler);
    for (uint32_t r = 0; r < operands_.result_count; ++r)
      take(w_, operands_.results[r], results[r]);
    for (uint32_t s = 0; s < operands_.source_count; ++s)
      give(w_, operands_.sources[s], before_.value[s]);
    for (uint32_t r = 0; r < operands_.result_count; ++r)
      give(w_, operands_.results[r], real_[r]);
  }

private:
  Warp &w_;
  const Instruction *i_;
  const ShadowForm &form_;
  const Operands &operands_;
  const Before &before_;
  Row real_[most_shadow_operands];
};

void move_bits(const Operands &operands, const ShadowForm &form, Again &again, const Before &before,
               uint32_t lanes, Row *next) {
  again.run([&](uint32_t s, uint8_t value,
                uint8_t shadow) { return form.data >> std::min(s, 7u) & 1 ? shadow : value; },
            next);
  // Which bits move where is itself undefined.
  for (uint32_t s = 0; s < operands.source_count; ++s)
    for (uint32_t rest = form.data >> std::min(s, 7u) & 1 ? 0 : lanes; rest; rest &= rest - 1)
      if (lane(before.shadow[s], operands.sources[s], first_lane(rest)))
        for (uint32_t r = 0; r < operands.result_count; ++r)
          set_lane(next[r], operands.results[r], first_lane(rest), ~uint64_t{0});
}

// A bit of the result is undefined where it changes with those of the sources that are.
void try_bits(const Operands &operands, Again &again, Row *next) {
  Row one[most_shadow_operands], other[most_shadow_operands];
  for (uint32_t r = 0; r < operands.result_count; ++r)
    next[r] = Row{};
  const uint32_t count = std::min(operands.source_count, 3u);
  for (uint32_t choice = 0; choice < 1u << count; ++choice) {
    again.run(
        [&](uint32_t s, uint8_t value, uint8_t shadow) {
          return static_cast<uint8_t>(s < 3 && choice >> s & 1 ? value | shadow : value & ~shadow);
        },
        choice ? other : one);
    for (uint32_t r = 0; choice && r < operands.result_count; ++r)
      for (uint32_t b = 0; b < row_bytes(operands.results[r]); ++b)
        next[r].bytes[b] |= one[r].bytes[b] ^ other[r].bytes[b];
  }
}

// The least and the greatest value that the bits leave open.
uint64_t extreme(uint64_t value, uint64_t shadow, uint32_t bits, bool is_signed, bool greatest) {
  uint64_t sign = is_signed ? uint64_t{1} << (bits - 1) : 0;
  uint64_t set = greatest ? shadow & ~sign : shadow & sign;
  return (value & ~shadow) | set;
}

bool may_differ(const ShadowForm &form, const Operands &operands, const Before &before, uint32_t l) {
  uint64_t value[2], shadow[2];
  const uint32_t bits = lane_bits(operands.sources[0]);
  for (uint32_t s = 0; s < 2; ++s) {
    value[s] = lane(before.value[s], operands.sources[s], l);
    shadow[s] = lane(before.shadow[s], operands.sources[s], l);
  }
  if ((shadow[0] | shadow[1]) == 0)
    return false;
  if (form.kind == ShadowKind::equal)
    return ((value[0] ^ value[1]) & ~(shadow[0] | shadow[1])) == 0;
  // Undefined unless the two ranges lie apart.
  auto as_order = [&](uint64_t v) { return form.is_signed ? v ^ uint64_t{1} << (bits - 1) : v; };
  uint64_t least[2], most[2];
  for (uint32_t s = 0; s < 2; ++s) {
    least[s] = as_order(extreme(value[s], shadow[s], bits, form.is_signed, false));
    most[s] = as_order(extreme(value[s], shadow[s], bits, form.is_signed, true));
  }
  const uint32_t one = form.part_bits ? 1 : 0; // whether it is less than the other, or not
  return most[one] >= least[1 - one] && least[one] < most[1 - one];
}

void find_lane_by_lane(const Operands &operands, const ShadowForm &form, const Before &before, uint32_t lanes,
                       Row *next) {
  const bool compares = form.kind == ShadowKind::equal || form.kind == ShadowKind::ordered;
  if (form.kind == ShadowKind::carry && form.data && operands.sources[0].offset == operands.sources[1].offset)
    return;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const uint32_t l = first_lane(rest);
    uint64_t sources[most_shadow_operands], all = 0;
    for (uint32_t s = 0; s < operands.source_count; ++s)
      all |= sources[s] = lane(before.shadow[s], operands.sources[s], l);
    for (uint32_t r = 0; r < operands.result_count; ++r) {
      const uint32_t bits = lane_bits(operands.results[r]);
      uint64_t found;
      if (compares)
        found = may_differ(form, operands, before, l);
      else if (form.kind == ShadowKind::carry)
        found = (all | (~all + 1)) & (all ? ~uint64_t{0} : 0);
      else
        found = any_of(form, sources, operands.source_count, bits);
      set_lane(next[r], operands.results[r], l, found & ones(bits));
    }
  }
}

const Instruction *follow_bits(Warp &w, const Instruction *i, const ShadowForm &form) {
  const Operands operands(w, form);
  if (form.kind == ShadowKind::clear) {
    for (uint32_t r = 0; r < operands.result_count; ++r)
      clear(w, operands.results[r], w.active);
    return execute(w, i, form.handler);
  }
  const Cause cause(w, operands);
  const Before before(w, operands);
  const uint32_t lanes_before = w.active;
  const Instruction *next = execute(w, i, form.handler);
  if (!next) // it waits for other lanes, and comes again with them
    return next;
  const uint32_t lanes = form.kind == ShadowKind::across || form.is_repeated_after ? w.active : lanes_before;
  Row found[most_shadow_operands] = {};
  if (cause.how != 0) {
    if (form.kind == ShadowKind::moved || form.kind == ShadowKind::bits) {
      Again again(w, i, form, operands, before);
      if (form.kind == ShadowKind::moved)
        move_bits(operands, form, again, before, lanes, found);
      else
        try_bits(operands, again, found);
    } else if (form.kind == ShadowKind::across) {
      uint64_t all = 0;
      for (uint32_t s = 0; s < operands.source_count; ++s)
        for (uint32_t rest = lanes; rest; rest &= rest - 1)
          all |= lane(before.shadow[s], operands.sources[s], first_lane(rest));
      for (uint32_t r = 0; all && r < operands.result_count; ++r)
        std::memset(found[r].bytes, 0xff, row_bytes(operands.results[r]));
    } else {
      find_lane_by_lane(operands, form, before, lanes, found);
    }
  }
  const uint8_t how = form.kind == ShadowKind::moved ? cause.how : cause.how | Shadow::is_computed;
  for (uint32_t r = 0; r < operands.result_count; ++r)
    put(w, operands.results[r], found[r], lanes, how, cause.from);
  return next;
}

} // namespace

bool follows_access(const Warp &w, const Instruction *i) {
  const ShadowKind kind = form_of(w, i).kind;
  return kind >= ShadowKind::load && kind <= ShadowKind::exchange;
}

const Instruction *watched_next(Warp &w, const Instruction *i) {
  return w.shadow && w.shadow->one_by_one ? i : i->handler(w, i);
}

const Instruction *watch_undefined(Warp &w, const Instruction *i) {
  const ShadowForm &form = form_of(w, i);
  const bool accesses = form.kind >= ShadowKind::load && form.kind <= ShadowKind::exchange;
  if (!w.shadow || (w.shadow->dirty == 0 && !accesses))
    return form.handler(w, i);
  switch (form.kind) {
  case ShadowKind::load:
    return watch_load(w, i, form);
  case ShadowKind::store:
    return watch_store(w, i, form);
  case ShadowKind::atomic:
  case ShadowKind::exchange:
    return watch_atomic(w, i, form);
  case ShadowKind::branch: {
    const Operands operands(w, form);
    report_row(w, i, FindingKind::undefined_branch, *operands.guard, w.active);
    if (operands.source_count)
      report_row(w, i, FindingKind::undefined_branch, operands.sources[0], w.active);
    return form.handler(w, i);
  }
  default:
    break;
  }
  return any_dirty(w, w.program->shadow_operands.data() + form.first + 2,
                   uint32_t{form.sources} + form.results)
             ? follow_bits(w, i, form)
             : form.handler(w, i);
}

const Instruction *watch_guard(Warp &w, const Instruction *i) {
  const ShadowForm &form = form_of(w, i);
  if (!w.shadow || w.shadow->dirty == 0)
    return form.guarded(w, i);
  const Operands operands(w, form);
  if (!is_dirty(w, *operands.guard))
    return form.guarded(w, i);
  const uint32_t lanes = w.active & undefined_lanes(w, *operands.guard);
  const ShadowOrigin from = origin(w, *operands.guard);
  // Whether anything is stored, or waited for, is a branch; a result may only be one of two.
  if (lanes && operands.result_count == 0)
    report_row(w, i, FindingKind::undefined_branch, *operands.guard, lanes);
  const Instruction *next = form.guarded(w, i);
  Row all;
  std::memset(all.bytes, 0xff, sizeof all.bytes);
  for (uint32_t r = 0; lanes && r < operands.result_count; ++r)
    put(w, operands.results[r], all, lanes, Shadow::is_computed, from);
  return next;
}

} // namespace emulator
