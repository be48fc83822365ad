#include "exec/decode/assemble.hpp"

#include <algorithm>
#include <utility>

#include "exec/check/numbers.hpp"
#include "exec/check/undefined/watch.hpp"
#include "exec/control/control.hpp"
#include "exec/decode/products.hpp"

namespace emulator {

namespace {
// Handlers go on with the next instruction by a jump; where a compiler makes a call of it, this bounds the
// stack that they take.
constexpr size_t most_without_return = 1000;
// What is watched takes several calls for each.
constexpr size_t most_watched = most_without_return / 4;
} // namespace

Assembler::Assembler(const ValueTable &values, const CodeForm &form, Program &program)
    : values_(values), form_(form), is_watched_(form.watch_numbers || form.watch_undefined),
      program_(program) {
  program_.accounts.emplace_back();
}

size_t Assembler::append(const Instruction &instruction, const ptx::SourceLine &source) {
  program_.code.push_back(instruction);
  program_.source.push_back(source);
  return program_.code.size() - 1;
}

void Assembler::add(FunctionCode &code, const LoweredFunction &function,
                    const std::vector<BasicBlock> &blocks, const std::vector<std::vector<uint32_t>> &tables) {
  std::vector<bool> meets(blocks.size(), false);
  for (const BasicBlock &block : blocks)
    if (block.diverges && block.post_dominator >= 0)
      meets[static_cast<size_t>(block.post_dominator)] = true;
  std::vector<uint32_t> block_of(function.code.size() + 1, 0);
  std::vector<size_t> block_begin(blocks.size(), 0);
  std::vector<uint32_t> mentions(values_.values.size(), 0);
  for (const Lowered &lowered : function.code)
    for (const Reference &r : lowered.references)
      ++mentions[r.value];
  struct Patch {
    size_t at;
    uint32_t code_index;
    bool is_join;
  };
  std::vector<Patch> patches;
  std::vector<std::pair<size_t, const Lowered *>> table_uses;
  code.first_instruction = static_cast<uint32_t>(program_.code.size());
  Instruction join;
  join.handler = control::join;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const BasicBlock &block = blocks[b];
    block_begin[b] = program_.code.size();
    const ptx::SourceLine &first_source = function.code[block.begin].source;
    if (meets[b])
      append(join, first_source);
    uint32_t count = 0;
    Account classes;
    std::vector<SharedAddress> addresses = shared_addresses(function, block);
    std::vector<size_t> place_of(block.end - block.begin, SIZE_MAX);
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
        account(count, classes, lowered.source);
      }
      if (lowered.dropped)
        continue;
      size_t index = place_of[k - block.begin] = append(instruction, lowered.source);
      if (form_.watch_numbers && lowered.watched.is_watched)
        watch(index, lowered.watched);
      if (form_.watch_undefined)
        follow_shadow(index, lowered);
      if (lowered.flow == Flow::branch)
        patches.push_back({index, function.start_of_position[lowered.target], false});
      if (lowered.flow == Flow::table)
        table_uses.push_back({index, &lowered});
      if ((k + 1 == block.end) && block.diverges && block.post_dominator >= 0)
        patches.push_back({index, blocks[static_cast<size_t>(block.post_dominator)].begin, true});
      if (lowered.meets_after) {
        size_t after = append(join, lowered.source);
        program_.code[index].join = reinterpret_cast<const Instruction *>(after + 1);
      }
    }
    if (count != 0)
      account(count, classes, function.code[block.end - 1].source);
    if (!form_.stepwise && !is_watched_)
      join_products(program_, function, block, place_of, mentions);
  }
  auto begin_of = [&](uint32_t code_index) { return block_begin[block_of[code_index]]; };
  for (const Patch &patch : patches) {
    const Instruction *place = reinterpret_cast<const Instruction *>(begin_of(patch.code_index) + 1);
    (patch.is_join ? program_.code[patch.at].join : program_.code[patch.at].target) = place;
  }
  for (const auto &[at, lowered] : table_uses) {
    program_.code[at].immediate = static_cast<int64_t>(tables_.size());
    tables_.emplace_back();
    for (uint32_t position : tables[lowered->table])
      tables_.back().push_back(begin_of(function.start_of_position[position]));
  }
}

void Assembler::watch(size_t index, const WatchedNumbers &numbers) {
  Instruction &instruction = program_.code[index];
  program_.watched.resize(index + 1);
  program_.watched[index] = numbers;
  program_.watched[index].handler = instruction.handler;
  program_.watched[index].overwritten = overwritten_sources(instruction, numbers);
  instruction.handler = watch_numbers;
}

ShadowOperand Assembler::shadow_operand(uint32_t value) const {
  if (value == UINT32_MAX)
    return {};
  const Value &of = values_.values[value];
  return {of.offset, static_cast<uint8_t>(of.row_bytes == 4 ? 0 : of.row_bytes / lanes_per_warp)};
}

// Its operands: those of the list in their order, with those that are not there; then those of fields.
void Assembler::follow_shadow(size_t index, const Lowered &lowered) {
  const ShadowRule &rule = lowered.shadow;
  const bool accesses = rule.kind >= ShadowKind::load && rule.kind <= ShadowKind::exchange;
  ShadowForm form;
  ShadowOperand guard, address;
  std::vector<ShadowOperand> sources, results;
  auto is_result = [&](uint32_t value) {
    return std::any_of(lowered.references.begin(), lowered.references.end(), [&](const Reference &r) {
      return r.field == Field::list && r.value == value && r.defines;
    });
  };
  if (rule.kind == ShadowKind::load || rule.kind == ShadowKind::store) {
    for (uint32_t value : lowered.list)
      (rule.kind == ShadowKind::load ? results : sources).push_back(shadow_operand(value));
  } else {
    for (uint32_t value : lowered.list)
      if (value != UINT32_MAX)
        (is_result(value) ? results : sources).push_back(shadow_operand(value));
  }
  for (Field field : {Field::a, Field::b, Field::c, Field::extra, Field::destination,
                      Field::immediate_plus_one, Field::guard})
    for (const Reference &r : lowered.references) {
      if (r.field != field)
        continue;
      const ShadowOperand operand = shadow_operand(r.value);
      if (field == Field::guard)
        guard = operand;
      else if (field == Field::a && accesses)
        address = operand;
      else if (r.defines)
        results.push_back(operand);
      else
        sources.push_back(operand);
      if (field == Field::extra && r.defines && r.uses) // the carry
        sources.push_back(operand);
    }
  if (rule.kind == ShadowKind::clear)
    sources.clear();
  Instruction &instruction = program_.code[index];
  // More than are followed, as matrices have them.
  form.kind = sources.size() + results.size() > most_shadow_operands ? ShadowKind::clear : rule.kind;
  form.part_bits = rule.part_bits;
  form.data = rule.data;
  form.joins_halves = rule.joins_halves;
  form.is_signed = rule.is_signed;
  form.is_repeated_after = rule.is_repeated_after;
  if (form.kind == ShadowKind::clear)
    sources.clear();
  form.sources = static_cast<uint8_t>(sources.size());
  form.results = static_cast<uint8_t>(std::min<size_t>(results.size(), UINT8_MAX));
  form.first = static_cast<uint32_t>(program_.shadow_operands.size());
  program_.shadow_operands.insert(program_.shadow_operands.end(), {guard, address});
  program_.shadow_operands.insert(program_.shadow_operands.end(), sources.begin(), sources.end());
  program_.shadow_operands.insert(program_.shadow_operands.end(), results.begin(), results.end());
  if (instruction.inner && form.kind != ShadowKind::branch) {
    form.handler = instruction.inner;
    form.guarded = instruction.handler;
    instruction.inner = watch_undefined;
    instruction.handler = watch_guard;
  } else {
    form.handler = instruction.handler;
    instruction.handler = watch_undefined;
  }
  program_.shadows.resize(index + 1);
  program_.shadows[index] = form;
}

void Assembler::close_account(Instruction &instruction, uint32_t &count, Account &classes) {
  instruction.count = static_cast<uint16_t>(count);
  instruction.account = count == 0 ? 0 : static_cast<uint32_t>(program_.accounts.size());
  if (count != 0)
    program_.accounts.push_back(classes);
  count = 0;
  classes = Account{};
}

void Assembler::account(uint32_t &count, Account &classes, const ptx::SourceLine &source) {
  Instruction instruction;
  instruction.handler = control::fall_through;
  close_account(instruction, count, classes);
  append(instruction, source);
}

void Assembler::fill(Instruction &instruction, const Lowered &lowered) {
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

void Assembler::link() {
  std::vector<Instruction> &code = program_.code;
  for (size_t k = 0; k < code.size(); ++k) {
    Instruction &i = code[k];
    bool returns = form_.stepwise || i.handler == control::guarded || i.handler == watch_guard ||
                   k % (is_watched_ ? most_watched : most_without_return) == 0 || k + 1 == code.size();
    i.follow = returns ? control::stop : form_.watch_undefined ? watched_next : code[k + 1].handler;
    if (k < program_.watched.size() && program_.watched[k].is_watched)
      program_.watched[k].follow = std::exchange(i.follow, control::stop);
    auto resolve = [&](const Instruction *&pointer) {
      size_t index = reinterpret_cast<size_t>(pointer);
      pointer = index == 0 ? nullptr : program_.code.data() + (index - 1);
    };
    resolve(i.target);
    resolve(i.join);
  }
  for (auto &table : tables_) {
    program_.tables.emplace_back();
    for (size_t index : table)
      program_.tables.back().push_back(program_.code.data() + index);
  }
}

} // namespace emulator
