// What ld, st, atom and red have in common: where, and in which order.
#include "exec/control/addresses.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

// Takes apart what loads, stores and atomics have in common. Hints to caches change nothing here.
Lowering::AccessForm Lowering::access_form(Opcode &opcode) {
  AccessForm form;
  bool of_block = false;
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
      form.order |= is_strong | (m == "release" || m == "acq_rel" || m == "sc" ? releases : 0);
    } else if (m == "sys") {
      form.system = true;
    } else if (m == "cta" || m == "cluster") {
      // Of blocks in a cluster exec/check looks at none.
      of_block = true;
    } else if (m == "weak" || m == "gpu" || m == "nc" || m == "ca" || m == "cg" || m == "cs" || m == "lu" ||
               m == "cv" || m == "wb" || m == "wt" || m == "noftz" || m.substr(0, 4) == "L1::" ||
               m.substr(0, 4) == "L2::" || m == "unified" || m == "L2") {
      continue;
    } else {
      form.rest.push_back(m);
    }
  }
  if (opcode.mnemonic == "atom" || opcode.mnemonic == "red")
    form.order |= is_strong;
  if (form.order && of_block)
    form.order |= among_block;
  if (form.order) {
    program_.communicates = true;
    program_.orders_blocks |= form.space != ptx::Space::shared;
  }
  return form;
}

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

} // namespace emulator
