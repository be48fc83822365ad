// The operands of an instruction whose undefined bits are followed, and what is told of them.
#pragma once

#include "exec/check/undefined/rows.hpp"
#include "exec/interface/findings.hpp"

namespace emulator::undefined {

// The operands of one instruction.
struct Operands {
  const ShadowOperand *guard, *address, *sources, *results;
  uint32_t source_count, result_count;
  Operands(const Warp &w, const ShadowForm &form)
      : guard(w.program->shadow_operands.data() + form.first), address(guard + 1), sources(guard + 2),
        results(sources + form.sources), source_count(form.sources), result_count(form.results) {}
};

inline const ShadowForm &form_of(const Warp &w, const Instruction *i) {
  return w.program->shadows[static_cast<size_t>(i - w.program->code.data())];
}

inline bool any_dirty(const Warp &w, const ShadowOperand *operands, uint32_t count) {
  bool any = false;
  for (uint32_t k = 0; w.shadow->dirty != 0 && k < count; ++k)
    any |= is_dirty(w, operands[k]);
  return any;
}

// Where the undefined bits of a result come from: of the first source that has some.
struct Cause {
  uint8_t how = 0;
  ShadowOrigin from;
  Cause(const Warp &w, const Operands &operands) {
    for (uint32_t s = operands.source_count; s-- > 0;)
      if (is_dirty(w, operands.sources[s])) {
        how |= state(w, operands.sources[s]);
        from = origin(w, operands.sources[s]);
      }
  }
};

inline uint64_t ones(uint32_t bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
inline uint32_t lane_bits(const ShadowOperand &operand) {
  return operand.lane_bytes ? 8u * operand.lane_bytes : 1;
}

// The shadows of sources, and what their rows hold.
struct Before {
  Row shadow[most_shadow_operands], value[most_shadow_operands];
  Before(const Warp &w, const Operands &operands) {
    for (uint32_t s = 0; s < operands.source_count; ++s) {
      take_shadow(w, operands.sources[s], shadow[s]);
      take(w, operands.sources[s], value[s]);
    }
  }
};

// Executes one instruction and none after it.
inline const Instruction *execute(Warp &w, const Instruction *i, Handler handler) {
  w.shadow->one_by_one = true;
  const Instruction *next = handler(w, i);
  w.shadow->one_by_one = false;
  return next;
}

// A finding of some lanes.
void report(Warp &w, const Instruction *i, FindingKind kind, uint32_t lanes, const ShadowOrigin &from);
// Of those of them that have undefined bits in a row. Once told, it counts as written.
void report_row(Warp &w, const Instruction *i, FindingKind kind, const ShadowOperand &row, uint32_t lanes);

// Accesses to memory, executed and followed.
const Instruction *watch_load(Warp &w, const Instruction *i, const ShadowForm &form);
const Instruction *watch_store(Warp &w, const Instruction *i, const ShadowForm &form);
const Instruction *watch_atomic(Warp &w, const Instruction *i, const ShadowForm &form);

} // namespace emulator::undefined
