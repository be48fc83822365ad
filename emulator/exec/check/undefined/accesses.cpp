// Loads, stores and atomic operations: undefined bits go to memory and come from there.
#include <algorithm>

#include "exec/check/undefined/operands.hpp"

namespace emulator::undefined {

namespace {

void look_at_address(Warp &w, const Instruction *i, const Operands &operands) {
  if (w.shadow->dirty != 0)
    report_row(w, i, FindingKind::undefined_address, *operands.address, w.active);
}

// Executes an access to memory and finds where it was.
const Instruction *execute_access(Warp &w, const Instruction *i, const ShadowForm &form) {
  Shadow &shadow = *w.shadow;
  shadow.is_noted = false;
  shadow.lanes = 0;
  const Instruction *next = execute(w, i, form.handler);
  if (!shadow.is_noted && i->known_slot != 0) { // where another one was, but for its own offset
    const Reach &reach = w.worker->reach.slot[i->known_slot - 1];
    shadow.lanes = w.active;
    shadow.lowest = reach.lowest + static_cast<uint64_t>(i->immediate);
    shadow.span = reach.span;
  }
  return next;
}

const Instruction *go_on(Warp &w, const Instruction *i, const Instruction *next) {
  return next == i + 1 ? i->follow(w, next) : next;
}

bool touches_undefined(const Shadow &shadow) {
  return shadow.lanes != 0 &&
         (shadow.span == UINT64_MAX || shadow.memory->may_be_undefined(shadow.lowest, shadow.span));
}

// The address of each lane of the last access.
void find_addresses(Warp &w, const Instruction *i) {
  Shadow &shadow = *w.shadow;
  if (!shadow.is_noted && i->known_slot != 0) {
    const Reach &reach = w.worker->reach.slot[i->known_slot - 1];
    lane_addresses(reach, shadow.lowest, shadow.addresses, reach.bytes, shadow.addresses);
  }
}

// Whether that is so of a few lanes together: what lies between those of others, as the padding of a row
// does, is not accessed. After find_addresses().
bool lanes_touch_undefined(const Shadow &shadow, uint64_t bytes) {
  constexpr uint64_t most_bytes_between = 4096;
  for (uint32_t first = 0; first < lanes_per_warp; first += lanes_of_piece) {
    uint32_t lanes = shadow.lanes & ((uint32_t{1} << lanes_of_piece) - 1) << first;
    if (lanes == 0)
      continue;
    uint64_t least = UINT64_MAX, most = 0;
    for (; lanes; lanes &= lanes - 1) {
      least = std::min(least, shadow.addresses[first_lane(lanes)]);
      most = std::max(most, shadow.addresses[first_lane(lanes)]);
    }
    if (most - least > most_bytes_between || shadow.memory->may_be_undefined(least, most - least + bytes))
      return true;
  }
  return false;
}

// Where in memory the bits of a lane are undefined.
ShadowOrigin origin_at(const Warp &w, const Instruction *i, uint32_t l, uint32_t skipped) {
  const ShadowMemory &memory = *w.shadow->memory;
  const uint64_t address = w.shadow->addresses[l] + skipped;
  ShadowOrigin from;
  from.instruction = static_cast<uint32_t>(i - w.program->code.data());
  from.bytes = i->element_bytes;
  const bool shared = address - memory.shared.base < memory.shared.bytes;
  if (!memory.own(address, 1)) {
    from.space = "global"; // found() makes a place in an allocation of it
    from.offset = address;
    return from;
  }
  from.space = shared ? memory.shared.name : memory.local.name;
  from.offset = shared ? address - memory.shared.base : (address - memory.local.base) % w.local_stride;
  return from;
}

// What lanes read of undefined bits from one element each, and where the first of these are.
struct ReadBits {
  Row row = {};
  ShadowOrigin from;
  bool any = false;
  uint64_t of_lane(const Warp &w, const Instruction *i, uint32_t l, uint32_t skipped) {
    uint64_t bits = 0;
    if (const uint8_t *at = w.shadow->memory->at(w.shadow->addresses[l] + skipped, i->element_bytes))
      std::memcpy(&bits, at, i->element_bytes);
    if (bits && !any)
      from = origin_at(w, i, l, skipped);
    any |= bits != 0;
    return bits;
  }
};

// An output is what leaves the block: a value wholly made of what nothing has written, or all of an access
// that was read so. What was copied with it, as the padding of a structure is, is no output.
void look_at_outputs(Warp &w, const Instruction *i, const Operands &operands) {
  const uint32_t bytes = i->element_bytes, elements = operands.source_count;
  for (uint32_t rest = w.shadow->lanes; rest; rest &= rest - 1) {
    const uint32_t l = first_lane(rest);
    if (w.shadow->memory->own(w.shadow->addresses[l], uint64_t{bytes} * elements))
      continue;
    uint32_t whole = 0;
    const ShadowOperand *told = nullptr;
    for (uint32_t s = 0; s < elements; ++s) {
      const ShadowOperand &source = operands.sources[s];
      if (!is_dirty(w, source))
        continue;
      Row row;
      take_shadow(w, source, row);
      if ((lane(row, source, l) & ones(8 * bytes)) != ones(8 * bytes))
        continue;
      ++whole;
      if ((state(w, source) & Shadow::is_computed) && !told)
        told = &source;
    }
    // Memory that goes to and fro decides nothing.
    const char *space = origin(w, operands.sources[0]).space;
    if (!told && whole == elements && std::strcmp(space, "local") != 0 && std::strcmp(space, "global") != 0)
      told = &operands.sources[0];
    if (told)
      report(w, i, FindingKind::undefined_output, uint32_t{1} << l, origin(w, *told));
  }
}

} // namespace

const Instruction *watch_load(Warp &w, const Instruction *i, const ShadowForm &form) {
  const Operands operands(w, form);
  Shadow &shadow = *w.shadow;
  look_at_address(w, i, operands);
  const Instruction *next = execute_access(w, i, form);
  const uint32_t bytes = i->element_bytes;
  bool any = touches_undefined(shadow);
  if (any) {
    find_addresses(w, i);
    any = lanes_touch_undefined(shadow, uint64_t{bytes} * operands.result_count);
  }
  if (!any && !any_dirty(w, operands.results, operands.result_count))
    return go_on(w, i, next);
  for (uint32_t r = 0; r < operands.result_count; ++r) {
    const ShadowOperand &result = operands.results[r];
    if (result.offset == no_offset)
      continue;
    ReadBits read;
    for (uint32_t rest = any ? shadow.lanes : 0; rest; rest &= rest - 1) {
      const uint32_t l = first_lane(rest);
      uint64_t bits = read.of_lane(w, i, l, r * bytes);
      if (form.is_signed && bits >> (8 * bytes - 1))
        bits |= ~ones(8 * bytes);
      set_lane(read.row, result, l, bits);
    }
    if (read.any || is_dirty(w, result))
      put(w, result, read.row, shadow.lanes, 0, read.from);
  }
  return next;
}

const Instruction *watch_store(Warp &w, const Instruction *i, const ShadowForm &form) {
  const Operands operands(w, form);
  Shadow &shadow = *w.shadow;
  look_at_address(w, i, operands);
  const Instruction *next = execute_access(w, i, form);
  const bool any = any_dirty(w, operands.sources, operands.source_count);
  if (!any && !touches_undefined(shadow))
    return go_on(w, i, next);
  find_addresses(w, i);
  const uint32_t bytes = i->element_bytes;
  if (!any) {
    const uint64_t all = uint64_t{bytes} * operands.source_count;
    if (!lanes_touch_undefined(shadow, all))
      return go_on(w, i, next);
    for (uint32_t rest = shadow.lanes; rest; rest &= rest - 1)
      shadow.memory->written(shadow.addresses[first_lane(rest)], all);
    return next;
  }
  for (uint32_t s = 0; s < operands.source_count; ++s) {
    Row row;
    take_shadow(w, operands.sources[s], row);
    for (uint32_t rest = shadow.lanes; rest; rest &= rest - 1) {
      const uint32_t l = first_lane(rest);
      const uint64_t bits = lane(row, operands.sources[s], l);
      shadow.memory->put(shadow.addresses[l] + s * bytes, &bits, bytes);
    }
  }
  look_at_outputs(w, i, operands);
  return next;
}

const Instruction *watch_atomic(Warp &w, const Instruction *i, const ShadowForm &form) {
  const Operands operands(w, form);
  Shadow &shadow = *w.shadow;
  look_at_address(w, i, operands);
  const bool any = any_dirty(w, operands.sources, operands.source_count) ||
                   any_dirty(w, operands.results, operands.result_count);
  const Cause cause(w, operands);
  const Before before(w, operands);
  const Instruction *next = execute_access(w, i, form);
  if (!any && !touches_undefined(shadow))
    return next;
  find_addresses(w, i);
  const uint32_t bytes = i->element_bytes;
  ReadBits read;
  for (uint32_t rest = shadow.lanes; rest; rest &= rest - 1) {
    const uint32_t l = first_lane(rest);
    uint64_t old = read.of_lane(w, i, l, 0), operand = 0;
    for (uint32_t s = 0; s < operands.source_count; ++s)
      operand |= lane(before.shadow[s], operands.sources[s], l);
    if (operands.result_count)
      set_lane(read.row, operands.results[0], l, old);
    uint64_t now = form.kind == ShadowKind::exchange ? operand : old | operand ? ones(8 * bytes) : 0;
    shadow.memory->put(shadow.addresses[l], &now, bytes);
  }
  if (cause.how != 0)
    look_at_outputs(w, i, operands);
  if (operands.result_count && (read.any || is_dirty(w, operands.results[0])))
    put(w, operands.results[0], read.row, shadow.lanes, 0, read.from);
  return next;
}

} // namespace emulator::undefined
