#include "exec/decode/layout.hpp"

#include <algorithm>

namespace emulator {

namespace {

using ptx::Space;

// Frames of functions that call themselves need room that the text does not state.
constexpr uint32_t recursion_bytes = 32 * 1024;
constexpr uint64_t most_frame_bytes = 1 << 24;
// What alloca may take in one thread.
constexpr uint64_t alloca_bytes = 16 * 1024;
// Room for the unnamed arguments of a call with a variable number of them.
constexpr uint64_t variadic_bytes = 1024;
// More than any architecture gives a block; ptxas itself stops at 48 KiB.
constexpr uint64_t most_shared_bytes = 227 << 10;

// All arrays whose length the launch decides begin at one place, after the others.
void place_shared(const std::vector<Unit> &units, Layout &layout, Program &program) {
  std::vector<const ptx::Variable *> open;
  uint64_t end = 0;
  uint32_t open_alignment = 16;
  for (const Unit &unit : units)
    for (const ptx::Symbol &symbol : unit.body->symbols) {
      const ptx::Variable *variable = symbol.variable;
      if (!variable || variable->space != Space::shared)
        continue;
      if (variable->size_bytes == 0) {
        open.push_back(variable);
        open_alignment = std::max(open_alignment, variable->alignment_bytes);
      } else if (layout.shared_offset.count(variable) == 0) {
        uint64_t offset = aligned(end, variable->alignment_bytes);
        layout.shared_offset[variable] = static_cast<uint32_t>(offset);
        end = offset + variable->size_bytes;
      }
    }
  if (end > most_shared_bytes)
    throw Unsupported{std::to_string(end) + " bytes of static shared memory", units[0].function->line};
  if (!open.empty())
    end = aligned(end, open_alignment);
  for (const ptx::Variable *variable : open)
    layout.shared_offset[variable] = static_cast<uint32_t>(end);
  program.shared_bytes = static_cast<uint32_t>(end);
  for (const auto &[variable, offset] : layout.shared_offset)
    program.shared_variables.push_back({std::string(variable->name), offset, variable->size_bytes});
  std::sort(program.shared_variables.begin(), program.shared_variables.end(),
            [](const SharedVariable &one, const SharedVariable &other) {
              return std::tie(one.offset, one.bytes, one.name) <
                     std::tie(other.offset, other.bytes, other.name);
            });
}

// What every frame begins at a multiple of, so that what is in it can be aligned.
uint32_t frame_alignment(const std::vector<Unit> &units) {
  uint32_t alignment = 16;
  auto regard = [&](const std::deque<ptx::Variable> &variables) {
    for (const ptx::Variable &variable : variables)
      if (variable.space == Space::local || variable.space == Space::parameter)
        alignment = std::max(alignment, variable.alignment_bytes);
  };
  for (const Unit &unit : units) {
    regard(unit.body->variables);
    if (&unit == &units[0]) // the kernel's parameters lie elsewhere
      continue;
    regard(unit.function->returns);
    regard(unit.function->parameters);
  }
  return alignment;
}

void place_in_frame(const Unit &unit, bool is_kernel, uint32_t alignment, Layout &layout,
                    const KernelInfo &kernel, FunctionCode &code) {
  uint64_t offset = 0;
  auto place = [&](const ptx::Variable &variable) {
    offset = aligned(offset, std::max(variable.alignment_bytes, 8u));
    layout.frame_offset[&variable] = static_cast<uint32_t>(offset);
    uint64_t bytes = variable.size_bytes;
    if (bytes == 0 && variable.space == Space::parameter)
      bytes = variadic_bytes;
    offset += bytes;
    if (offset > most_frame_bytes)
      throw Unsupported{std::string(unit.function->name) + ": more than 16 MiB of local memory",
                        variable.line};
    return ParameterBytes{layout.frame_offset[&variable], static_cast<uint32_t>(bytes)};
  };
  if (is_kernel) {
    for (size_t p = 0; p < unit.function->parameters.size(); ++p)
      layout.frame_offset[&unit.function->parameters[p]] = kernel.parameters[p].offset_bytes;
  } else {
    for (const ptx::Variable &variable : unit.function->returns)
      code.returns.push_back(place(variable));
    for (const ptx::Variable &variable : unit.function->parameters)
      code.parameters.push_back(place(variable));
  }
  for (const ptx::Variable &variable : unit.body->variables)
    if (variable.space == Space::local || variable.space == Space::parameter)
      place(variable);
  // At least something, so that a recursion without an end runs out of stack.
  code.local_bytes = static_cast<uint32_t>(aligned(std::max<uint64_t>(offset, is_kernel ? 0 : 1), alignment));
}

struct Stack {
  bool uses_alloca = false;
  uint32_t alignment = 16; // that alloca asks for
};

Stack find_allocas(const std::vector<Unit> &units) {
  Stack stack;
  for (const Unit &unit : units)
    for (const ptx::Instruction &instruction : unit.body->instructions) {
      if (instruction.opcode.substr(0, 6) != "alloca")
        continue;
      stack.uses_alloca = true;
      if (instruction.operand_count > 2) {
        int64_t alignment = unit.body->operands[instruction.first_operand + 2].value;
        if (alignment > 0 && alignment <= ptx::most_alignment) // else the instruction is refused
          stack.alignment = std::max(stack.alignment, static_cast<uint32_t>(alignment));
      }
    }
  return stack;
}

// Of the deepest chain of calls from unit `u` on. `depth`: what is known, UINT64_MAX where nothing is.
uint64_t deepest(const std::vector<Unit> &units, const Program &program, uint32_t u,
                 std::vector<uint64_t> &depth) {
  if (depth[u] != UINT64_MAX)
    return depth[u];
  depth[u] = 0; // a cycle ends here
  uint64_t below = 0;
  for (uint32_t callee : units[u].calls)
    below = std::max(below, deepest(units, program, callee, depth));
  return depth[u] = below + program.functions[u].local_bytes;
}

} // namespace

void place_variables(const std::vector<Unit> &units, Layout &layout, Program &program) {
  place_shared(units, layout, program);
  uint32_t alignment = frame_alignment(units);
  Stack stack = find_allocas(units);
  program.local_alignment = std::max(alignment, stack.alignment);
  for (size_t u = 0; u < units.size(); ++u)
    place_in_frame(units[u], u == 0, alignment, layout, program.info, program.functions[u]);
  bool recursive = std::any_of(units.begin(), units.end(), [](const Unit &unit) { return unit.recursive; });
  std::vector<uint64_t> depth(units.size(), UINT64_MAX);
  program.recursion_bytes = recursive ? recursion_bytes : 0;
  program.frame_bytes = static_cast<uint32_t>(std::min<uint64_t>(
      aligned(deepest(units, program, 0, depth) + program.recursion_bytes, program.local_alignment),
      most_frame_bytes));
  program.local_bytes = program.frame_bytes + static_cast<uint32_t>(stack.uses_alloca ? alloca_bytes : 0);
}

} // namespace emulator
