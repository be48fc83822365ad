// atom, red.
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

void Lowering::atomic(Opcode &opcode) {
  if (opcode.has("async")) {
    store_asynchronously(opcode);
    return;
  }
  bool returns = opcode.mnemonic == "atom";
  AccessForm form = access_form(opcode);
  program_.communicates = true;
  program_.orders_blocks |= form.space != ptx::Space::shared;
  if (form.rest.size() != 1)
    unsupported();
  if (form.type == Type::b128 && form.elements == 1) {
    atomic_wide(form, form.rest[0]);
    return;
  }
  std::string name = std::string(form.elements > 1 ? "atom.vector." : "atom.") + std::string(form.rest[0]) +
                     "." + std::string(name_of(form.type));
  const Operation &found = operation(name);
  size_t first = returns ? 1 : 0;
  if (form.elements > 1) {
    atomic_vector(form, found, first);
    return;
  }
  if (operand_count() < first + 1 + found.source_count)
    unsupported("with " + std::to_string(operand_count()) + " operands");
  std::vector<uint32_t> sources;
  for (size_t s = 0; s < found.source_count; ++s)
    sources.push_back(source(operand(first + 1 + s), found.sources[s]));
  ptx::Space space = form.space;
  int64_t offset;
  bool wide;
  uint32_t row = access_row(operand(first), form, space, offset, wide);
  bool wants = returns && operand(0).kind != Kind::sink;
  uint32_t result = wants ? destination(operand(0), found.destination) : UINT32_MAX;
  Lowered &lowered = emit(found.handler);
  lowered.shadow.kind = form.rest[0] == "exch" ? ShadowKind::exchange : ShadowKind::atomic;
  refer(lowered, Field::a, row, false);
  refer(lowered, Field::b, sources[0], false);
  if (sources.size() > 1)
    refer(lowered, Field::c, sources[1], false);
  if (wants)
    refer(lowered, Field::destination, result, true);
  lowered.result_is_optional = true;
  lowered.instruction.space = space;
  lowered.instruction.site = ++program_.sites;
  lowered.instruction.immediate = offset;
  lowered.instruction.wide_address = wide;
  lowered.instruction.of_system = form.system;
  lowered.instruction.order = form.order;
  lowered.instruction.element_bytes = static_cast<uint8_t>(ptx::size_bytes(form.type));
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

// Of neighbours: the list names the rows of the old values, then those of the operands.
void Lowering::atomic_vector(const AccessForm &form, const Operation &found, size_t first) {
  if (form.elements * ptx::size_bytes(form.type) > 16)
    unsupported("of more than 16 bytes");
  const Operand &from = operand(first + 1);
  if (from.kind != Kind::vector || from.count != form.elements)
    unsupported("with a list of another length");
  const Operand *to = first == 1 && operand(0).kind != Kind::sink ? &operand(0) : nullptr;
  if (to && (to->kind != Kind::vector || to->count != form.elements))
    unsupported("with a list of another length");
  std::vector<uint32_t> sources, list;
  for (uint32_t e = 0; e < form.elements; ++e)
    sources.push_back(source(element(from, e), found.sources[0]));
  ptx::Space space = form.space;
  int64_t offset;
  bool wide;
  uint32_t row = access_row(operand(first), form, space, offset, wide);
  for (uint32_t e = 0; e < form.elements; ++e)
    list.push_back(to && element(*to, e).kind != Kind::sink ? destination(element(*to, e), found.destination)
                                                            : UINT32_MAX);
  Lowered &lowered = emit(found.handler);
  refer(lowered, Field::a, row, false);
  for (uint32_t value : list)
    if (value != UINT32_MAX)
      refer(lowered, Field::list, value, true);
  for (uint32_t value : sources)
    refer(lowered, Field::list, value, false);
  list.insert(list.end(), sources.begin(), sources.end());
  lowered.list = std::move(list);
  lowered.instruction.space = space;
  lowered.instruction.site = ++program_.sites;
  lowered.instruction.immediate = offset;
  lowered.instruction.wide_address = wide;
  lowered.instruction.of_system = form.system;
  lowered.instruction.order = form.order;
  lowered.instruction.extra_count = static_cast<uint8_t>(form.elements);
  lowered.instruction.element_bytes = static_cast<uint8_t>(ptx::size_bytes(form.type));
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

} // namespace emulator
