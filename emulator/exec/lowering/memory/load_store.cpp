// ld, st.
#include <algorithm>
#include <utility>

#include "exec/copies/asynchronous.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

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

// Without the bytes after the last one that is used: compilers widen loads over what may lie outside of
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

void Lowering::load(Opcode &opcode) {
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
    lowered.instruction.order = form.order;
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

// st.bulk: zeros in shared memory.
void Lowering::clear_shared(Opcode &opcode) {
  bool names_space = opcode.remove("shared::cta");
  opcode.remove("weak");
  if (!opcode.modifiers.empty() || operand_count() != 3 || operand(2).kind != Kind::integer ||
      operand(2).value)
    unsupported();
  const Operand &bytes = operand(1);
  bool wide = bytes.kind == Kind::reg && ptx::size_bytes(body_.registers[bytes.index]) == 8;
  program_.communicates = true;
  Lowered &lowered = emit_list(
      asynchronous::clear, {generic_row(operand(0), names_space ? ptx::Space::shared : ptx::Space::generic),
                            source(bytes, wide ? Type::u64 : Type::u32)});
  lowered.instruction.immediate = wide;
  lowered.counted = 1;
  apply_guard(lowered);
}

void Lowering::store(Opcode &opcode) {
  if (opcode.has("async")) {
    store_asynchronously(opcode);
    return;
  }
  if (opcode.remove("bulk")) {
    clear_shared(opcode);
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
  lowered.instruction.lane_bytes = static_cast<uint8_t>(lane_bytes);
  lowered.instruction.order = form.order;
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

} // namespace emulator
