// ld, st, atom, red.
#include <algorithm>
#include <utility>

#include "exec/decode/lowering.hpp"
#include "exec/machine/control.hpp"

namespace emulator {

using ptx::Type;

// Takes apart what loads, stores and atomics have in common. Hints to caches change nothing here.
Lowering::AccessForm Lowering::access_form(Opcode &opcode) {
  AccessForm form;
  for (std::string_view m : opcode.modifiers) {
    Type type = ptx::type_from_name(m);
    if (type != Type::none) {
      form.type = type;
    } else if (m == "global") {
      form.space = ptx::Space::global;
    } else if (m == "const") {
      form.space = ptx::Space::constant;
    } else if (m == "shared" || m == "shared::cta" || m == "shared::cluster") {
      form.space = ptx::Space::shared;
      form.cluster = m == "shared::cluster";
    } else if (m == "local") {
      form.space = ptx::Space::local;
    } else if (m == "param" || m == "param::entry" || m == "param::func") {
      form.space = ptx::Space::parameter;
    } else if (m == "v2" || m == "v4" || m == "v8") {
      form.elements = static_cast<uint32_t>(m[1] - '0');
    } else if (m == "volatile" || m == "relaxed" || m == "acquire" || m == "release" || m == "acq_rel" ||
               m == "sc" || m == "mmio") {
      form.ordered = true;
    } else if (m == "weak" || m == "cta" || m == "cluster" || m == "gpu" || m == "sys" || m == "nc" ||
               m == "ca" || m == "cg" || m == "cs" || m == "lu" || m == "cv" || m == "wb" || m == "wt" ||
               m == "noftz" || m.substr(0, 4) == "L1::" || m.substr(0, 4) == "L2::" || m == "unified" ||
               m == "L2") {
      continue;
    } else {
      form.rest.push_back(m);
    }
  }
  if (form.ordered) {
    program_.communicates = true;
    program_.orders_blocks |= form.space != ptx::Space::shared;
  }
  return form;
}

namespace {
// The type of an access by size; a signed one grows with its sign when loaded.
std::string memory_type(Type type, bool with_sign) {
  uint32_t bits = 8 * ptx::size_bytes(type);
  return (with_sign && ptx::is_signed(type) && bits < 64 ? "s" : "u") + std::to_string(bits);
}

struct LoadPart {
  uint32_t first; // element
  uint32_t count; // 1, 2, 4 or 8
  Type type;
  uint32_t element_bytes;
};

// Without the bytes behind the last one that is used: compilers widen loads over what may lie outside of
// memory.
std::vector<LoadPart> parts_of_load(const LoadPart &all, uint32_t used_bytes) {
  uint32_t bytes = all.count * all.element_bytes;
  if (bytes < 32)
    used_bytes &= (uint32_t{1} << bytes) - 1;
  uint32_t end = used_bytes ? 32 - static_cast<uint32_t>(__builtin_clz(used_bytes)) : bytes;
  if (end == bytes)
    return {all};
  std::vector<LoadPart> parts;
  uint32_t whole = end / all.element_bytes, rest = end % all.element_bytes, first = 0;
  for (uint32_t count = 8; count; count /= 2)
    if (whole & count) {
      parts.push_back({first, count, all.type, all.element_bytes});
      first += count;
    }
  if (rest == 1)
    parts.push_back({first, 1, Type::u8, 1});
  else if (rest == 2)
    parts.push_back({first, 1, Type::u16, 2});
  else if (rest && rest <= 4)
    parts.push_back({first, 1, Type::u32, 4});
  else if (rest)
    parts.push_back({first, 1, all.type, all.element_bytes});
  return parts;
}
} // namespace

// The row of addresses and the fixed offset to add to it.
uint32_t Lowering::address_row(const Operand &memory, ptx::Space &space, int64_t &offset, bool &wide) {
  offset = memory.value;
  wide = true;
  if (memory.kind != Kind::memory)
    unsupported("without an address");
  if (memory.base == Kind::integer)
    return values_.constant(0, 8);
  if (memory.base == Kind::reg) {
    Type type = body_.registers[memory.index];
    if (ptx::size_bytes(type) != 4 && ptx::size_bytes(type) != 8)
      unsupported("with an address of type ." + std::string(name_of(type)));
    wide = ptx::size_bytes(type) == 8;
    if (space == ptx::Space::parameter)
      space = ptx::Space::generic;
    return variable_of(memory.index);
  }
  if (memory.base != Kind::symbol)
    unsupported("with this kind of address");
  const ptx::Symbol &symbol = body_.symbols[memory.index];
  if (!symbol.variable)
    unsupported("with the address of a function");
  const ptx::Variable &variable = *symbol.variable;
  if (space == ptx::Space::generic)
    space = variable.space;
  Operand operand = memory;
  operand.kind = Kind::symbol;
  if (space == ptx::Space::parameter) {
    // Inside the frame, which is local memory.
    operand.value = 0;
    space = ptx::Space::local;
    uint32_t place = frame_offset(variable);
    if (function_index_ == 0) {
      offset += place;
      return values_.constant(0, 8);
    }
    uint32_t row = values_.variable(8 * lanes_per_warp);
    Lowered &read = emit(control::local_address);
    read.instruction.immediate = static_cast<int64_t>(place);
    refer(read, Field::destination, row, true);
    return row;
  }
  operand.value = 0;
  return address_source(operand, 8);
}

// As address_row; what may lie in another block of the cluster becomes a generic address.
uint32_t Lowering::access_row(const Operand &memory, const AccessForm &form, ptx::Space &space,
                              int64_t &offset, bool &wide) {
  uint32_t row = address_row(memory, space, offset, wide);
  if (!form.cluster || space != ptx::Space::shared)
    return row;
  row = generic_of_shared(row, offset, wide);
  space = ptx::Space::generic;
  offset = 0;
  wide = true;
  return row;
}

void Lowering::load(Opcode opcode) {
  AccessForm form = access_form(opcode);
  if (!form.rest.empty() || form.type == Type::none || form.type == Type::pred || operand_count() < 2)
    unsupported();
  const Operand &memory = operand(1);
  const Operand &to = operand(0);
  bool halved = form.type == Type::b128;
  uint32_t size = halved ? 8 : ptx::size_bytes(form.type);
  if (form.elements > 1 && (to.kind != Kind::vector || to.count != form.elements))
    unsupported("with a list of another length");
  std::vector<const Operand *> targets;
  for (uint32_t e = 0; e < form.elements; ++e)
    targets.push_back(form.elements > 1                          ? &element(to, e)
                      : to.kind == Kind::vector && to.count == 1 ? &element(to, 0)
                                                                 : &to);
  // All elements have registers of one size; the load itself extends to it.
  uint32_t lane_bytes = size;
  for (const Operand *target : targets)
    if (target->kind == Kind::reg && !halved)
      lane_bytes = ptx::size_bytes(body_.registers[target->index]);
  if (lane_bytes < size || lane_bytes > 8)
    unsupported("into a register of another size");
  Type row_type = lane_bytes == 8   ? Type::b64
                  : lane_bytes == 4 ? Type::b32
                  : lane_bytes == 2 ? Type::b16
                                    : Type::b8;

  bool kernel_parameter = false;
  int64_t offset = 0;
  bool wide = true;
  uint32_t row = UINT32_MAX;
  ptx::Space space = form.space;
  if (space == ptx::Space::parameter && memory.kind == Kind::memory && memory.base == Kind::symbol &&
      function_index_ == 0 && body_.symbols[memory.index].variable &&
      is_kernel_parameter(*body_.symbols[memory.index].variable)) {
    kernel_parameter = true;
    const ptx::Variable &variable = *body_.symbols[memory.index].variable;
    offset = memory.value + frame_offset(variable);
    if (memory.value < 0 ||
        static_cast<uint64_t>(memory.value) + uint64_t{ptx::size_bytes(form.type)} * form.elements >
            variable.size_bytes)
      unsupported("outside of its parameter");
  } else {
    row = access_row(memory, form, space, offset, wide);
  }
  std::vector<uint32_t> list;
  for (const Operand *target : targets) {
    if (halved) {
      bool unused = target->kind == Kind::sink;
      list.push_back(unused ? UINT32_MAX : halves(*target).first);
      list.push_back(unused ? UINT32_MAX : halves(*target).second);
    } else {
      list.push_back(target->kind == Kind::sink && form.elements > 1 ? UINT32_MAX
                                                                     : destination(*target, row_type));
    }
  }
  if (halved)
    form.elements *= 2, form.type = Type::b64;
  LoadPart all{0, form.elements, form.type, size};
  std::vector<LoadPart> parts{all};
  if (!kernel_parameter)
    parts = parts_of_load(all, instruction_->used_bytes);
  // A part that writes the register of the address comes last.
  std::stable_partition(parts.begin(), parts.end(), [&](const LoadPart &part) {
    auto first = list.begin() + part.first;
    return std::find(first, first + part.count, row) == first + part.count;
  });
  bool is_counted = false;
  for (const LoadPart &part : parts) {
    std::vector<uint32_t> into(list.begin() + part.first, list.begin() + part.first + part.count);
    if (part.count == 1 && into[0] == UINT32_MAX)
      continue;
    Lowered &lowered = emit((kernel_parameter ? "ld.param." : "ld.") + memory_type(part.type, true) + "." +
                                std::to_string(8 * lane_bytes),
                            {}, UINT32_MAX);
    if (row != UINT32_MAX) {
      refer(lowered, Field::a, row, false);
      lowered.instruction.space = space;
      lowered.instruction.site = ++program_.sites;
    }
    lowered.instruction.immediate = offset + static_cast<int64_t>(part.first) * size;
    lowered.instruction.wide_address = wide;
    lowered.instruction.extra_count = static_cast<uint8_t>(part.count);
    lowered.instruction.element_bytes = static_cast<uint8_t>(part.element_bytes);
    if (part.count == 1) {
      refer(lowered, Field::destination, into[0], true);
    } else {
      for (uint32_t value : into)
        if (value != UINT32_MAX)
          refer(lowered, Field::list, value, true);
      lowered.list = std::move(into);
    }
    lowered.counted = !std::exchange(is_counted, true);
    apply_guard(lowered);
  }
  finish_destinations();
}

void Lowering::store(Opcode opcode) {
  if (opcode.has("async")) {
    store_asynchronously(std::move(opcode));
    return;
  }
  AccessForm form = access_form(opcode);
  if (!form.rest.empty() || form.type == Type::none || form.type == Type::pred || operand_count() < 2)
    unsupported();
  const Operand &memory = operand(0);
  const Operand &from = operand(1);
  bool halved = form.type == Type::b128;
  uint32_t size = halved ? 8 : ptx::size_bytes(form.type);
  if (form.elements > 1 && (from.kind != Kind::vector || from.count != form.elements))
    unsupported("with a list of another length");
  std::vector<const Operand *> sources;
  for (uint32_t e = 0; e < form.elements; ++e)
    sources.push_back(form.elements > 1                              ? &element(from, e)
                      : from.kind == Kind::vector && from.count == 1 ? &element(from, 0)
                                                                     : &from);
  uint32_t lane_bytes = size;
  for (const Operand *s : sources)
    if (s->kind == Kind::reg && !halved)
      lane_bytes = ptx::size_bytes(body_.registers[s->index]);
  if (lane_bytes < size || lane_bytes > 8)
    unsupported("from a register of another size");
  std::vector<uint32_t> list;
  for (const Operand *s : sources) {
    if (halved) {
      list.push_back(halves(*s).first);
      list.push_back(halves(*s).second);
      continue;
    }
    Type row_type = lane_bytes == 8   ? Type::b64
                    : lane_bytes == 4 ? Type::b32
                    : lane_bytes == 2 ? Type::b16
                                      : Type::b8;
    // A constant has the access's own type: 1.0 in a store of f32.
    bool constant = s->kind == Kind::integer || s->kind == Kind::real32 || s->kind == Kind::real64;
    list.push_back(constant ? values_.constant(immediate_bits(*s, form.type), lane_bytes)
                            : source(*s, row_type));
  }
  if (halved)
    form.elements *= 2, form.type = Type::b64;
  ptx::Space space = form.space;
  int64_t offset;
  bool wide;
  uint32_t row = access_row(memory, form, space, offset, wide);
  Lowered &lowered =
      emit("st." + memory_type(form.type, false) + "." + std::to_string(8 * lane_bytes), {}, UINT32_MAX);
  refer(lowered, Field::a, row, false);
  lowered.instruction.space = space;
  lowered.instruction.site = ++program_.sites;
  lowered.instruction.immediate = offset;
  lowered.instruction.wide_address = wide;
  lowered.instruction.extra_count = static_cast<uint8_t>(form.elements);
  lowered.instruction.element_bytes = static_cast<uint8_t>(size);
  if (form.elements == 1) {
    refer(lowered, Field::b, list[0], false);
  } else {
    for (uint32_t value : list)
      refer(lowered, Field::list, value, false);
    lowered.list = std::move(list);
  }
  lowered.counted = 1;
  apply_guard(lowered);
}

void Lowering::atomic(Opcode opcode) {
  if (opcode.has("async")) {
    store_asynchronously(std::move(opcode));
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
  refer(lowered, Field::a, row, false);
  refer(lowered, Field::b, sources[0], false);
  if (sources.size() > 1)
    refer(lowered, Field::c, sources[1], false);
  if (wants)
    refer(lowered, Field::destination, result, true);
  lowered.instruction.space = space;
  lowered.instruction.site = ++program_.sites;
  lowered.instruction.immediate = offset;
  lowered.instruction.wide_address = wide;
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
  lowered.instruction.extra_count = static_cast<uint8_t>(form.elements);
  lowered.instruction.element_bytes = static_cast<uint8_t>(ptx::size_bytes(form.type));
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
}

} // namespace emulator
