// Operands of a PTX instruction to values.
#include <cstring>

#include "exec/control/addresses.hpp"
#include "exec/control/control.hpp"
#include "exec/control/services.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Type;

namespace {

struct SpecialName {
  std::string_view name;
  Special special;
  uint32_t lane_bytes;
};

constexpr SpecialName special_names[] = {
    {"%tid.x", Special::tid_x, 4},
    {"%tid.y", Special::tid_y, 4},
    {"%tid.z", Special::tid_z, 4},
    {"%ntid.x", Special::ntid_x, 4},
    {"%ntid.y", Special::ntid_y, 4},
    {"%ntid.z", Special::ntid_z, 4},
    {"%ctaid.x", Special::ctaid_x, 4},
    {"%ctaid.y", Special::ctaid_y, 4},
    {"%ctaid.z", Special::ctaid_z, 4},
    {"%nctaid.x", Special::nctaid_x, 4},
    {"%nctaid.y", Special::nctaid_y, 4},
    {"%nctaid.z", Special::nctaid_z, 4},
    {"%laneid", Special::laneid, 4},
    {"%warpid", Special::warpid, 4},
    {"%nwarpid", Special::nwarpid, 4},
    {"%smid", Special::smid, 4},
    {"%nsmid", Special::nsmid, 4},
    {"%gridid", Special::gridid, 8},
    {"%lanemask_eq", Special::lanemask_eq, 4},
    {"%lanemask_le", Special::lanemask_le, 4},
    {"%lanemask_lt", Special::lanemask_lt, 4},
    {"%lanemask_ge", Special::lanemask_ge, 4},
    {"%lanemask_gt", Special::lanemask_gt, 4},
    {"%ntid.w", Special::one, 4},
    {"%nctaid.w", Special::one, 4},
    {"%nclusterid.w", Special::one, 4},
    {"%cluster_nctaid.w", Special::one, 4},
    {"%clusterid.x", Special::clusterid_x, 4},
    {"%clusterid.y", Special::clusterid_y, 4},
    {"%clusterid.z", Special::clusterid_z, 4},
    {"%nclusterid.x", Special::nclusterid_x, 4},
    {"%nclusterid.y", Special::nclusterid_y, 4},
    {"%nclusterid.z", Special::nclusterid_z, 4},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x, 4},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y, 4},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z, 4},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x, 4},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y, 4},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z, 4},
    {"%cluster_ctarank", Special::cluster_ctarank, 4},
    {"%cluster_nctarank", Special::cluster_nctarank, 4},
    {"%dynamic_smem_size", Special::dynamic_smem_size, 4},
    {"%total_smem_size", Special::total_smem_size, 4},
    {"%aggr_smem_size", Special::total_smem_size, 4},
    {"%envreg0", Special::envreg0, 4},
    {"%envreg1", Special::envreg1, 4},
    {"%envreg2", Special::envreg2, 4},
    {"%clock", Special::clock, 4},
    {"%clock_hi", Special::clock_hi, 4},
    {"%clock64", Special::clock64, 8},
    {"%globaltimer", Special::globaltimer, 8},
    {"%globaltimer_lo", Special::globaltimer_lo, 4},
    {"%globaltimer_hi", Special::globaltimer_hi, 4},
};

Type unsigned_type(uint32_t lane_bytes) {
  return lane_bytes == 8 ? Type::u64 : lane_bytes == 4 ? Type::u32 : lane_bytes == 2 ? Type::u16 : Type::u8;
}

// Special registers that are always zero here: what the driver may put into %envreg, performance counters
// that are off, shared memory that the system keeps, the fourth component of a vector, no graph on the
// device. 0 for no such name.
uint32_t bytes_of_idle_special(std::string_view name) {
  auto numbered = [&](std::string_view prefix, unsigned count) {
    if (name.substr(0, prefix.size()) != prefix)
      return false;
    std::string_view digits = name.substr(prefix.size());
    if (digits.empty() || digits.size() > 2 || digits.find_first_not_of("0123456789") != digits.npos)
      return false;
    return static_cast<unsigned>(std::stoi(std::string(digits))) < count;
  };
  if (name.size() > 3 && name.substr(name.size() - 3) == "_64") {
    name.remove_suffix(3);
    return numbered("%pm", 8) ? 8 : 0;
  }
  if (numbered("%envreg", 32) || numbered("%pm", 8))
    return 4;
  for (std::string_view known :
       {"%reserved_smem_offset_begin", "%reserved_smem_offset_end", "%reserved_smem_offset_cap",
        "%reserved_smem_offset_0", "%reserved_smem_offset_1", "%tid.w", "%ctaid.w", "%clusterid.w",
        "%cluster_ctaid.w"})
    if (name == known)
      return 4;
  return name == "%current_graph_exec" ? 8 : 0;
}

} // namespace

const Lowering::Operand &Lowering::operand(size_t number) const {
  if (number >= instruction_->operand_count)
    unsupported("with " + std::to_string(instruction_->operand_count) + " operands");
  return body_.operands[instruction_->first_operand + number];
}

uint64_t Lowering::immediate_bits(const Operand &operand, Type type) const {
  uint64_t bits = static_cast<uint64_t>(operand.value);
  auto as_double = [&] {
    if (operand.kind == Kind::integer)
      return static_cast<double>(operand.value);
    if (operand.kind == Kind::real64) {
      double wide;
      std::memcpy(&wide, &bits, 8);
      return wide;
    }
    float narrow;
    uint32_t low = static_cast<uint32_t>(bits);
    std::memcpy(&narrow, &low, 4);
    return static_cast<double>(narrow);
  };
  uint32_t size = ptx::size_bytes(type);
  bool real = operand.kind != Kind::integer;
  bool same_size = !real || (operand.kind == Kind::real32 ? size == 4 : size == 8);
  if (!same_size || (!real && (type == Type::f32 || type == Type::f64))) {
    double value = as_double();
    if (size == 8) {
      std::memcpy(&bits, &value, 8);
    } else {
      float narrow = static_cast<float>(value);
      uint32_t low;
      std::memcpy(&low, &narrow, 4);
      bits = low;
    }
  }
  return size == 8 || size == 0 ? bits : bits & ((uint64_t{1} << (8 * size)) - 1);
}

uint32_t Lowering::resized(uint32_t value, Type from, Type to) {
  if (ptx::size_bytes(from) == ptx::size_bytes(to))
    return value;
  // The sign of the source type decides how a value grows.
  Type wide = ptx::is_signed(from) ? from : unsigned_type(ptx::size_bytes(from));
  uint32_t result = values_.variable(row_bytes_of(to));
  emit("resize." + std::string(name_of(unsigned_type(ptx::size_bytes(to)))) + "." +
           std::string(name_of(wide)),
       {value}, result);
  return result;
}

uint32_t Lowering::special_source(std::string_view name, Type type) {
  if (type == Type::pred) {
    if (name != "%is_explicit_cluster")
      unsupported("with " + std::string(name) + " as a predicate");
    uint32_t result = values_.variable(4);
    emit("setp.ne.u32", {values_.special(Special::is_explicit_cluster, 4), values_.constant(0, 4)}, result);
    return result;
  }
  for (const SpecialName &entry : special_names) {
    if (entry.name != name)
      continue;
    uint32_t value;
    if (entry.special >= Special::clock) {
      value = values_.variable(entry.lane_bytes * lanes_per_warp);
      Lowered &read = emit(control::clock);
      read.instruction.immediate = static_cast<int64_t>(entry.special);
      refer(read, Field::destination, value, true);
      program_.uses_clock = true;
    } else {
      value = values_.special(entry.special, entry.lane_bytes);
    }
    return resized(value, unsigned_type(entry.lane_bytes), type);
  }
  uint32_t lane_bytes = bytes_of_idle_special(name);
  if (lane_bytes == 0)
    unsupported("with the special register " + std::string(name));
  return resized(values_.constant(0, lane_bytes), unsigned_type(lane_bytes), type);
}

uint32_t Lowering::source(const Operand &operand, Type type) {
  if (ptx::size_bytes(type) > 8)
    unsupported("with operands of 128 bits");
  switch (operand.kind) {
  case Kind::reg: {
    Type declared = body_.registers[operand.index];
    uint32_t value = variable_of(operand.index);
    if ((declared == Type::pred) != (type == Type::pred))
      unsupported("with a register of type ." + std::string(name_of(declared)));
    if (type == Type::pred) {
      if (!operand.negated)
        return value;
      uint32_t inverted = values_.variable(4);
      emit("not.pred", {value}, inverted);
      return inverted;
    }
    if (ptx::size_bytes(declared) > 8)
      unsupported("with a register of 128 bits");
    return resized(value, unsigned_type(ptx::size_bytes(declared)), type);
  }
  case Kind::integer:
  case Kind::real32:
  case Kind::real64:
    if (type == Type::pred)
      return values_.constant((operand.value != 0) != operand.negated, 0);
    return values_.constant(immediate_bits(operand, type), ptx::size_bytes(type));
  case Kind::special:
    return special_source(body_.names[operand.index], type);
  case Kind::symbol:
    return address_source(operand, ptx::size_bytes(type));
  default:
    unsupported("with this kind of operand");
  }
}

// The address of a symbol in its own state space. Parameter space is part of generic memory here.
uint32_t Lowering::address_source(const Operand &operand, uint32_t lane_bytes) {
  const ptx::Symbol &symbol = body_.symbols[operand.index];
  uint64_t addend = static_cast<uint64_t>(operand.value);
  if (lane_bytes != 4 && lane_bytes != 8)
    unsupported("with an address in a narrow register");
  auto constant = [&](uint64_t bits) {
    return values_.constant(lane_bytes == 4 ? bits & 0xffffffff : bits, lane_bytes);
  };
  if (symbol.function) {
    for (size_t f = 0; f < layout_.module->functions.size(); ++f)
      if (&layout_.module->functions[f] == symbol.function)
        return constant(first_function_address + f * function_address_step + addend);
    unsupported("with the address of an unknown function");
  }
  const ptx::Variable &variable = *symbol.variable;
  if (variable.space == ptx::Space::shared)
    return constant(layout_.shared_offset.at(&variable) + addend);
  if (variable.space == ptx::Space::global || variable.space == ptx::Space::constant)
    return constant(layout_.global_address(variable) + addend);
  uint32_t offset = frame_offset(variable);
  bool parameter = variable.space == ptx::Space::parameter;
  if (parameter && function_index_ == 0 && is_kernel_parameter(variable)) {
    uint32_t result = values_.variable(8 * lanes_per_warp);
    emit("add.u64", {values_.special(Special::parameters, 8), values_.constant(offset + addend, 8)}, result);
    return resized(result, Type::u64, unsigned_type(lane_bytes));
  }
  if (!parameter && function_index_ == 0)
    return constant(offset + addend);
  uint32_t result = values_.variable(8 * lanes_per_warp);
  Lowered &read = emit(control::local_address);
  read.instruction.immediate = static_cast<int64_t>(offset + addend);
  read.instruction.wide_address = parameter;
  refer(read, Field::destination, result, true);
  return resized(result, Type::u64, unsigned_type(lane_bytes));
}

uint32_t Lowering::destination(const Operand &operand, Type type) {
  uint32_t row_bytes = row_bytes_of(type);
  if (operand.kind == Kind::sink)
    return values_.variable(row_bytes);
  if (operand.kind != Kind::reg)
    unsupported("with this kind of result");
  Type declared = body_.registers[operand.index];
  if ((declared == Type::pred) != (type == Type::pred) || ptx::size_bytes(declared) > 8)
    unsupported("with a result of type ." + std::string(name_of(declared)));
  if (row_bytes_of(declared) == row_bytes)
    return variable_of(operand.index);
  uint32_t value = values_.variable(row_bytes);
  unfinished_.push_back({value, operand.index, type});
  return value;
}

void Lowering::finish_destinations() {
  for (const Unfinished &u : unfinished_) {
    Type to = unsigned_type(ptx::size_bytes(body_.registers[u.reg]));
    Type from =
        ptx::is_signed(u.type) && u.type != Type::s64 ? u.type : unsigned_type(ptx::size_bytes(u.type));
    apply_guard(emit("resize." + std::string(name_of(to)) + "." + std::string(name_of(from)), {u.value},
                     variable_of(u.reg)));
  }
  unfinished_.clear();
}

uint32_t Lowering::carry() {
  if (carry_ == UINT32_MAX)
    carry_ = values_.variable(4);
  return carry_;
}

} // namespace emulator
