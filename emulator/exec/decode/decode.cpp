// Decoding of a kernel: which functions belong to it, where their variables lie, and the final code.
#include "exec/decode/decode.hpp"

#include <algorithm>
#include <set>

#include "exec/decode/lowering.hpp"
#include "exec/machine/control.hpp"

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
// What CUDA allows is 32,764; anything far beyond it is a damaged text.
// More than any architecture gives a block; ptxas itself stops at 48 KiB.
constexpr uint64_t most_shared_bytes = 227 << 10;
constexpr uint64_t most_parameter_bytes = 1 << 16;
constexpr size_t most_functions = 10000;

uint64_t aligned(uint64_t offset, uint64_t alignment) {
  alignment = alignment ? alignment : 1;
  return (offset + alignment - 1) / alignment * alignment;
}

struct Unit {
  const ptx::Function *function = nullptr;
  std::unique_ptr<ptx::Body> body;
  std::vector<uint32_t> calls; // indices of units
  bool calls_indirectly = false;
};

class Decoder {
public:
  Decoder(const ptx::Module &module, const ptx::Function &kernel, Program &program) : program_(program) {
    layout_.module = &module;
    add_unit(kernel);
  }

  void set_global_address(const std::function<uint64_t(const ptx::Variable &)> &address) {
    layout_.global_address = address;
  }

  void decode(bool fuse_multiply_add) {
    for (size_t u = 0; u < units_.size(); ++u) // grows while it runs
      parse(u);
    find_recursion();
    place_variables();
    program_.accounts.emplace_back();
    for (const ptx::Variable &variable : layout_.module->variables)
      if (variable.space == Space::constant)
        program_.constant_ranges.push_back({layout_.global_address(variable), variable.size_bytes});
    std::vector<LoweredFunction> lowered;
    std::vector<std::vector<std::vector<uint32_t>>> tables;
    for (size_t u = 0; u < units_.size(); ++u) {
      Lowering lowering(*units_[u].body, static_cast<uint32_t>(u), layout_, values_, program_);
      if (fuse_multiply_add)
        lowering.fuse();
      lowered.push_back(lowering.lower());
      tables.push_back(lowering.tables());
    }
    uint32_t end = values_.place_shared(program_, 0);
    for (size_t u = 0; u < units_.size(); ++u) {
      std::vector<BasicBlock> blocks = find_blocks(lowered[u], tables[u]);
      uint32_t begin = end;
      end = allocate_rows(lowered[u], blocks, values_, end, program_.functions[u].rows,
                          program_.undefined_rows);
      uint32_t slots = (end - begin + 127) / 128;
      program_.info.registers_per_thread =
          std::max(program_.info.registers_per_thread, std::min(255u, slots + 8));
      assemble(u, lowered[u], blocks, tables[u]);
    }
    program_.register_bytes = end;
    // Only now does the code stay where it is.
    for (Instruction &i : program_.code) {
      auto resolve = [&](const Instruction *&pointer) {
        size_t index = reinterpret_cast<size_t>(pointer);
        pointer = index == 0 ? nullptr : program_.code.data() + (index - 1);
      };
      resolve(i.target);
      resolve(i.join);
    }
    for (auto &table : table_indices_) {
      program_.tables.emplace_back();
      for (size_t index : table)
        program_.tables.back().push_back(program_.code.data() + index);
    }
  }

private:
  uint32_t add_unit(const ptx::Function &function) {
    auto [entry, is_new] = layout_.function_index.insert({&function, static_cast<uint32_t>(units_.size())});
    if (is_new) {
      if (units_.size() >= most_functions)
        throw Unsupported{"more than 10,000 functions in one kernel", function.line};
      units_.emplace_back();
      units_.back().function = &function;
      program_.functions.emplace_back();
      program_.functions.back().function = &function;
    }
    return entry->second;
  }

  void parse(size_t u) {
    const ptx::Function &function = *units_[u].function;
    units_[u].body = ptx::parse_body(*layout_.module, function);
    const ptx::Body &body = *units_[u].body;
    for (const ptx::Instruction &instruction : body.instructions) {
      if (instruction.opcode.substr(0, 4) != "call")
        continue;
      bool direct = false;
      for (uint32_t o = 0; o < instruction.operand_count && !direct; ++o) {
        const ptx::Operand &operand = body.operands[instruction.first_operand + o];
        if (operand.kind != ptx::Operand::Kind::symbol || !body.symbols[operand.index].function)
          continue;
        direct = true;
        const ptx::Function &callee = *body.symbols[operand.index].function;
        if (!callee.is_extern) {
          uint32_t index = add_unit(callee);
          units_[u].calls.push_back(index);
        }
      }
      units_[u].calls_indirectly |= !direct;
    }
    for (const ptx::Instruction &instruction : body.instructions) {
      if (instruction.opcode.substr(0, 6) != "alloca")
        continue;
      uses_alloca_ = true;
      if (instruction.operand_count > 2) {
        int64_t alignment = body.operands[instruction.first_operand + 2].value;
        if (alignment > 0 && alignment <= ptx::most_alignment) // else the instruction is refused
          alloca_alignment_ = std::max(alloca_alignment_, static_cast<uint32_t>(alignment));
      }
    }
    if (units_[u].calls_indirectly && !all_functions_) {
      // Any function might be meant.
      all_functions_ = true;
      for (const ptx::Function &other : layout_.module->functions)
        if (!other.is_entry && !other.is_extern)
          add_unit(other);
    }
  }

  void find_recursion() {
    size_t n = units_.size();
    std::vector<std::vector<uint32_t>> calls(n);
    for (size_t u = 0; u < n; ++u) {
      calls[u] = units_[u].calls;
      if (units_[u].calls_indirectly)
        for (uint32_t v = 1; v < n; ++v)
          calls[u].push_back(v);
    }
    for (size_t u = 1; u < n; ++u) {
      std::vector<bool> seen(n, false);
      std::vector<uint32_t> stack = calls[u];
      while (!stack.empty() && !program_.functions[u].recursive) {
        uint32_t v = stack.back();
        stack.pop_back();
        if (v == u)
          program_.functions[u].recursive = true;
        if (seen[v])
          continue;
        seen[v] = true;
        stack.insert(stack.end(), calls[v].begin(), calls[v].end());
      }
    }
    calls_ = std::move(calls);
  }

  // Of the place where the arrays without a length begin.
  uint32_t open_alignment() const {
    uint32_t alignment = 16;
    for (const Unit &unit : units_)
      for (const ptx::Symbol &symbol : unit.body->symbols)
        if (symbol.variable && symbol.variable->space == Space::shared && symbol.variable->size_bytes == 0)
          alignment = std::max(alignment, symbol.variable->alignment_bytes);
    return alignment;
  }

  // What every frame begins at a multiple of, so that what stands in it can be aligned.
  uint32_t frame_alignment() const {
    uint32_t alignment = 16;
    auto regard = [&](const std::deque<ptx::Variable> &variables) {
      for (const ptx::Variable &variable : variables)
        if (variable.space == Space::local || variable.space == Space::parameter)
          alignment = std::max(alignment, variable.alignment_bytes);
    };
    for (const Unit &unit : units_) {
      regard(unit.body->variables);
      if (&unit == &units_[0]) // the kernel's parameters lie elsewhere
        continue;
      regard(unit.function->returns);
      regard(unit.function->parameters);
    }
    return alignment;
  }

  void place_shared(const ptx::Variable &variable, uint64_t &offset, bool open) {
    if (variable.space != Space::shared || (variable.size_bytes == 0) != open)
      return;
    if (layout_.shared_offset.count(&variable))
      return;
    if (open) {
      // All arrays whose length the launch decides begin at one place, behind the others.
      layout_.shared_offset[&variable] = static_cast<uint32_t>(aligned(offset, open_alignment()));
      return;
    }
    offset = aligned(offset, variable.alignment_bytes);
    layout_.shared_offset[&variable] = static_cast<uint32_t>(offset);
    offset += variable.size_bytes;
  }

  void place_variables() {
    uint64_t shared = 0;
    for (bool open : {false, true})
      for (const Unit &unit : units_) {
        for (const ptx::Symbol &symbol : unit.body->symbols)
          if (symbol.variable)
            place_shared(*symbol.variable, shared, open);
      }
    if (shared > most_shared_bytes)
      throw Unsupported{std::to_string(shared) + " bytes of static shared memory", units_[0].function->line};
    bool has_open = std::any_of(layout_.shared_offset.begin(), layout_.shared_offset.end(),
                                [](const auto &entry) { return entry.first->size_bytes == 0; });
    program_.shared_bytes = static_cast<uint32_t>(
        std::min<uint64_t>(has_open ? aligned(shared, open_alignment()) : shared, UINT32_MAX));

    uint32_t alignment = frame_alignment();
    program_.local_alignment = std::max(alignment, alloca_alignment_);
    std::vector<uint64_t> frame(units_.size());
    for (size_t u = 0; u < units_.size(); ++u) {
      const Unit &unit = units_[u];
      FunctionCode &code = program_.functions[u];
      uint64_t offset = 0;
      auto place = [&](const ptx::Variable &variable) {
        offset = aligned(offset, std::max(variable.alignment_bytes, 8u));
        layout_.frame_offset[&variable] = static_cast<uint32_t>(offset);
        uint64_t bytes = variable.size_bytes;
        if (bytes == 0 && variable.space == Space::parameter)
          bytes = variadic_bytes;
        offset += bytes;
        if (offset > most_frame_bytes)
          throw Unsupported{std::string(unit.function->name) + ": more than 16 MiB of local memory",
                            variable.line};
        return ParameterBytes{layout_.frame_offset[&variable], static_cast<uint32_t>(bytes)};
      };
      if (u == 0) {
        for (size_t p = 0; p < unit.function->parameters.size(); ++p)
          layout_.frame_offset[&unit.function->parameters[p]] = program_.info.parameters[p].offset_bytes;
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
      code.local_bytes =
          static_cast<uint32_t>(aligned(std::max<uint64_t>(offset, u == 0 ? 0 : 1), alignment));
    }
    // The deepest chain of calls; recursion adds a fixed reserve.
    std::vector<uint64_t> depth(units_.size(), UINT64_MAX);
    bool recursive = false;
    std::function<uint64_t(uint32_t)> deepest = [&](uint32_t u) -> uint64_t {
      if (depth[u] != UINT64_MAX)
        return depth[u];
      depth[u] = 0; // a cycle ends here
      uint64_t below = 0;
      for (uint32_t v : calls_[u])
        below = std::max(below, deepest(v));
      recursive |= program_.functions[u].recursive;
      return depth[u] = below + program_.functions[u].local_bytes;
    };
    uint64_t local = deepest(0) + (recursive ? recursion_bytes : 0);
    program_.frame_bytes =
        static_cast<uint32_t>(std::min<uint64_t>(aligned(local, program_.local_alignment), most_frame_bytes));
    program_.recursion_bytes = recursive ? recursion_bytes : 0;
    program_.local_bytes = program_.frame_bytes + static_cast<uint32_t>(uses_alloca_ ? alloca_bytes : 0);
  }

  void assemble(size_t u, const LoweredFunction &function, const std::vector<BasicBlock> &blocks,
                const std::vector<std::vector<uint32_t>> &tables) {
    std::vector<bool> meets(blocks.size(), false);
    for (const BasicBlock &block : blocks)
      if (block.diverges && block.post_dominator >= 0)
        meets[static_cast<size_t>(block.post_dominator)] = true;
    std::vector<uint32_t> block_of(function.code.size() + 1, 0);
    std::vector<size_t> block_begin(blocks.size(), 0);
    struct Patch {
      size_t at;
      uint32_t code_index;
      bool is_join;
    };
    std::vector<Patch> patches;
    std::vector<std::pair<size_t, const Lowered *>> table_uses;
    program_.functions[u].first_instruction = static_cast<uint32_t>(program_.code.size());
    auto add = [&](const Instruction &instruction, const ptx::SourceLine &source) {
      program_.code.push_back(instruction);
      program_.source.push_back(source);
      return program_.code.size() - 1;
    };
    Instruction join;
    join.handler = control::join;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const BasicBlock &block = blocks[b];
      block_begin[b] = program_.code.size();
      const ptx::SourceLine &first_source = function.code[block.begin].source;
      if (meets[b])
        add(join, first_source);
      uint32_t count = 0;
      Account classes;
      std::vector<SharedAddress> addresses = shared_addresses(function, block);
      for (uint32_t k = block.begin; k < block.end; ++k) {
        const Lowered &lowered = function.code[k];
        block_of[k] = static_cast<uint32_t>(b);
        Instruction instruction = lowered.instruction;
        fill(instruction, lowered);
        instruction.slot = addresses[k - block.begin].slot;
        if (instruction.slot != 0 && !addresses[k - block.begin].begins) {
          instruction.known_slot = instruction.slot;
          if (lowered.known)
            (instruction.inner ? instruction.inner : instruction.handler) = lowered.known;
        }
        count += lowered.counted;
        classes.of_class[static_cast<size_t>(lowered.instruction_class)] += lowered.counted;
        if (lowered.accounts) {
          close_account(instruction, count, classes);
        } else if (count >= 60000) {
          // Very long blocks are accounted for in pieces.
          account(add, count, classes, lowered.source);
        }
        size_t index = add(instruction, lowered.source);
        if (lowered.flow == Flow::branch)
          patches.push_back({index, function.start_of_position[lowered.target], false});
        if (lowered.flow == Flow::table)
          table_uses.push_back({index, &lowered});
        if ((k + 1 == block.end) && block.diverges && block.post_dominator >= 0)
          patches.push_back({index, blocks[static_cast<size_t>(block.post_dominator)].begin, true});
        if (lowered.meets_behind) {
          size_t behind = add(join, lowered.source);
          program_.code[index].join = reinterpret_cast<const Instruction *>(behind + 1);
        }
      }
      if (count != 0)
        account(add, count, classes, function.code[block.end - 1].source);
    }
    auto begin_of = [&](uint32_t code_index) { return block_begin[block_of[code_index]]; };
    for (const Patch &patch : patches) {
      const Instruction *place = reinterpret_cast<const Instruction *>(begin_of(patch.code_index) + 1);
      (patch.is_join ? program_.code[patch.at].join : program_.code[patch.at].target) = place;
    }
    for (const auto &[at, lowered] : table_uses) {
      program_.code[at].immediate = static_cast<int64_t>(table_indices_.size());
      table_indices_.emplace_back();
      for (uint32_t position : tables[lowered->table])
        table_indices_.back().push_back(begin_of(function.start_of_position[position]));
    }
  }

  // Lets `instruction` account for what has been counted so far.
  void close_account(Instruction &instruction, uint32_t &count, Account &classes) {
    instruction.count = static_cast<uint16_t>(count);
    instruction.account = count == 0 ? 0 : static_cast<uint32_t>(program_.accounts.size());
    if (count != 0)
      program_.accounts.push_back(classes);
    count = 0;
    classes = Account{};
  }

  template <typename Add>
  void account(Add add, uint32_t &count, Account &classes, const ptx::SourceLine &source) {
    Instruction instruction;
    instruction.handler = control::fall_through;
    close_account(instruction, count, classes);
    add(instruction, source);
  }

  void fill(Instruction &instruction, const Lowered &lowered) {
    for (const Reference &r : lowered.references) {
      uint32_t offset = values_.values[r.value].offset;
      switch (r.field) {
      case Field::destination:
        instruction.destination = offset;
        break;
      case Field::a:
        instruction.a = offset;
        break;
      case Field::b:
        instruction.b = offset;
        break;
      case Field::c:
        instruction.c = offset;
        break;
      case Field::guard:
        instruction.guard = offset;
        break;
      case Field::extra:
        instruction.extra = offset;
        break;
      case Field::immediate_plus_one:
        instruction.immediate = int64_t{offset} + 1;
        break;
      case Field::list:
        break;
      }
    }
    if (lowered.list.empty())
      return;
    instruction.extra = static_cast<uint32_t>(program_.extra.size());
    for (uint32_t value : lowered.list)
      program_.extra.push_back(value == UINT32_MAX ? no_offset : values_.values[value].offset);
  }

  Program &program_;
  Layout layout_;
  ValueTable values_;
  std::vector<Unit> units_;
  std::vector<std::vector<uint32_t>> calls_;
  std::vector<std::vector<size_t>> table_indices_;
  bool all_functions_ = false;
  bool uses_alloca_ = false;
  uint32_t alloca_alignment_ = 16;
};

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
                                       bool fuse_multiply_add) {
  auto program = std::make_unique<Program>();
  describe(module, kernel, program->info);
  try {
    if (!program->info.unsupported.empty())
      throw Unsupported{program->info.unsupported, program->info.unsupported_line};
    Decoder decoder(module, kernel, *program);
    decoder.set_global_address(global_address);
    decoder.decode(fuse_multiply_add);
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
