#include "exec/decode/units.hpp"

#include <map>

#include "exec/lowered/lowered.hpp"
#include "ptx/body/parse_body.hpp"

namespace emulator {

namespace {

constexpr size_t most_functions = 10000;

class Search {
public:
  Search(const ptx::Module &module, const ptx::Function &kernel) : module_(module) { position_of(kernel); }

  std::vector<Unit> run() {
    for (size_t u = 0; u < units_.size(); ++u) // grows while it runs
      parse(u);
    for (uint32_t caller : call_addresses_)
      for (uint32_t v = 1; v < units_.size(); ++v)
        units_[caller].calls.push_back(v);
    for (uint32_t u = 1; u < units_.size(); ++u)
      units_[u].recursive = reaches_itself(u);
    return std::move(units_);
  }

private:
  uint32_t position_of(const ptx::Function &function) {
    auto [entry, is_new] = positions_.insert({&function, static_cast<uint32_t>(units_.size())});
    if (is_new) {
      if (units_.size() >= most_functions)
        throw Unsupported{"more than 10,000 functions in one kernel", function.line};
      units_.emplace_back();
      units_.back().function = &function;
    }
    return entry->second;
  }

  void parse(size_t u) {
    units_[u].body = ptx::parse_body(module_, *units_[u].function);
    const ptx::Body &body = *units_[u].body;
    bool calls_address = false;
    for (const ptx::Instruction &instruction : body.instructions) {
      if (instruction.opcode.substr(0, 4) != "call")
        continue;
      const ptx::Function *callee = nullptr;
      for (uint32_t o = 0; o < instruction.operand_count && !callee; ++o) {
        const ptx::Operand &operand = body.operands[instruction.first_operand + o];
        if (operand.kind == ptx::Operand::Kind::symbol)
          callee = body.symbols[operand.index].function;
      }
      calls_address |= !callee;
      if (callee && !callee->is_extern) {
        uint32_t position = position_of(*callee);
        units_[u].calls.push_back(position);
      }
    }
    if (!calls_address)
      return;
    call_addresses_.push_back(static_cast<uint32_t>(u));
    if (call_addresses_.size() > 1)
      return;
    for (const ptx::Function &other : module_.functions)
      if (!other.is_entry && !other.is_extern)
        position_of(other);
  }

  bool reaches_itself(uint32_t u) const {
    std::vector<bool> seen(units_.size(), false);
    std::vector<uint32_t> stack = units_[u].calls;
    while (!stack.empty()) {
      uint32_t v = stack.back();
      stack.pop_back();
      if (v == u)
        return true;
      if (seen[v])
        continue;
      seen[v] = true;
      stack.insert(stack.end(), units_[v].calls.begin(), units_[v].calls.end());
    }
    return false;
  }

  const ptx::Module &module_;
  std::vector<Unit> units_;
  std::map<const ptx::Function *, uint32_t> positions_;
  std::vector<uint32_t> call_addresses_; // positions of units
};

} // namespace

std::vector<Unit> find_units(const ptx::Module &module, const ptx::Function &kernel) {
  return Search(module, kernel).run();
}

} // namespace emulator
