#include "exec/decode/decode.hpp"

#include <algorithm>

#include "exec/decode/assemble.hpp"
#include "exec/decode/layout.hpp"

namespace emulator {

namespace {

using ptx::Space;

// What CUDA allows is 32,764; anything far beyond it is a damaged text.
constexpr uint64_t most_parameter_bytes = 1 << 16;

void decode(const ptx::Function &kernel, Layout layout, const CodeForm &form, Program &program) {
  std::vector<Unit> units = find_units(*layout.module, kernel);
  for (const Unit &unit : units) {
    layout.function_index[unit.function] = static_cast<uint32_t>(program.functions.size());
    program.functions.emplace_back();
    program.functions.back().function = unit.function;
    program.functions.back().recursive = unit.recursive;
  }
  place_variables(units, layout, program);
  for (const ptx::Variable &variable : layout.module->variables)
    if (variable.space == Space::constant)
      program.constant_ranges.push_back({layout.global_address(variable), variable.size_bytes});
  ValueTable values;
  std::vector<LoweredFunction> lowered;
  std::vector<std::vector<std::vector<uint32_t>>> tables;
  for (size_t u = 0; u < units.size(); ++u) {
    Lowering lowering(*units[u].body, static_cast<uint32_t>(u), layout, values, program);
    if (form.fuse_multiply_add)
      lowering.fuse();
    if (form.defer)
      lowering.defer();
    if (form.check)
      lowering.check();
    if (form.watch_numbers)
      lowering.watch_numbers();
    if (form.watch_undefined)
      lowering.watch_undefined();
    lowered.push_back(lowering.lower());
    tables.push_back(lowering.tables());
  }
  Assembler assembler(values, form, program);
  uint32_t end = values.place_shared(program, 0);
  for (size_t u = 0; u < units.size(); ++u) {
    std::vector<BasicBlock> blocks = find_blocks(lowered[u], tables[u]);
    uint32_t begin = end;
    AllocatedRows rows;
    end = allocate_rows(lowered[u], blocks, values, begin, rows);
    // What the text itself needs: occupancy does not depend on how it is executed.
    uint32_t slots = (end - begin + 127) / 128;
    program.info.registers_per_thread =
        std::max(program.info.registers_per_thread, std::min(255u, slots + 8));
    if (simplify(lowered[u], blocks, values)) {
      rows = AllocatedRows{};
      end = allocate_rows(lowered[u], blocks, values, begin, rows);
    }
    auto add = [](std::vector<RowRange> &to, const std::vector<RowRange> &from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    add(program.undefined_rows, rows.undefined);
    add(program.product_rows, rows.kept);
    program.functions[u].rows = std::move(rows.all);
    assembler.add(program.functions[u], lowered[u], blocks, tables[u]);
  }
  program.register_bytes = end;
  assembler.link();
}

void describe(const ptx::Module &module, const ptx::Function &kernel, KernelInfo &info) {
  info.name = std::string(kernel.name);
  uint64_t offset = 0;
  for (const ptx::Variable &parameter : kernel.parameters) {
    offset = aligned(offset, parameter.alignment_bytes);
    info.parameters.push_back({std::string(parameter.name), static_cast<uint32_t>(offset),
                               static_cast<uint32_t>(parameter.size_bytes), parameter.alignment_bytes});
    offset += parameter.size_bytes;
  }
  if (offset > most_parameter_bytes) {
    info.parameters.clear();
    info.unsupported = "parameters of " + std::to_string(offset) + " bytes";
    info.unsupported_line = kernel.line;
    offset = 0;
  }
  info.parameter_bytes = static_cast<uint32_t>(offset);
  info.ptx_version = module.texts[kernel.text_index].version;
  info.target_sm = module.texts[kernel.text_index].target_sm;
  if (kernel.max_threads != 0)
    info.max_threads_per_block = kernel.max_threads;
  for (int d = 0; d < 3; ++d) {
    info.required_block[d] = kernel.required_block[d];
    info.required_cluster[d] = kernel.required_cluster[d];
  }
  if (kernel.required_block[0] != 0)
    info.max_threads_per_block = static_cast<uint32_t>(std::min<uint64_t>(
        1024, uint64_t{kernel.required_block[0]} * kernel.required_block[1] * kernel.required_block[2]));
}

} // namespace

std::unique_ptr<Program> decode_kernel(const ptx::Module &module, const ptx::Function &kernel,
                                       const std::function<uint64_t(const ptx::Variable &)> &global_address,
                                       const CodeForm &form) {
  auto program = std::make_unique<Program>();
  describe(module, kernel, program->info);
  try {
    if (!program->info.unsupported.empty())
      throw Unsupported{program->info.unsupported, program->info.unsupported_line};
    Layout layout;
    layout.module = &module;
    layout.global_address = global_address;
    decode(kernel, std::move(layout), form, *program);
  } catch (const Unsupported &what) {
    program->info.unsupported = what.what;
    program->info.unsupported_line = what.ptx_line;
  } catch (const std::bad_alloc &) {
    program->info.unsupported = "a kernel too large for the memory of this host";
  } catch (const ptx::SyntaxError &error) {
    program->info.unsupported = error.what();
  }
  if (!program->info.unsupported.empty()) {
    program->code.clear();
    program->functions.clear();
  }
  program->info.static_shared_bytes = program->shared_bytes;
  program->info.local_bytes_per_thread = program->local_bytes;
  for (const ptx::Variable &variable : module.variables)
    if (variable.space == Space::constant)
      program->info.constant_bytes += static_cast<uint32_t>(std::min<uint64_t>(variable.size_bytes, 65536));
  return program;
}

} // namespace emulator
