#include "exec/decode/products.hpp"

#include <array>

#include "exec/operations/builds.hpp"

namespace emulator {

namespace {

struct KnownHandlers {
  Handler load = nullptr;
  Handler sum = nullptr;
  Handler both = nullptr; // nullptr: this processor has none
};

std::vector<KnownHandlers> known_handlers() {
  std::vector<KnownHandlers> result;
  const OperationTable &table = operation_table();
  for (auto [load, sum, both] : {std::array{"ld.u32.32", "fma.f32", "products.f32"},
                                 std::array{"ld.u64.64", "fma.f64", "products.f64"}})
    if (const Operation *found = table.find(both))
      result.push_back({table.find(load)->known, table.find(sum)->handler, found->handler});
  return result;
}

uint32_t value_in(const Lowered &lowered, Field field) {
  for (const Reference &r : lowered.references)
    if (r.field == field)
      return r.value;
  return UINT32_MAX;
}

} // namespace

void join_products(Program &program, const LoweredFunction &function, const BasicBlock &block,
                   const std::vector<size_t> &place_of, const std::vector<uint32_t> &mentions) {
  static const std::vector<KnownHandlers> all = known_handlers();
  std::vector<uint32_t> last; // positions of the three instructions before this one
  size_t last_sum = SIZE_MAX; // in Program::code
  uint32_t last_result = UINT32_MAX;
  for (uint32_t k = block.begin; k < block.end; ++k) {
    size_t place = place_of[k - block.begin];
    if (place == SIZE_MAX)
      continue;
    last.push_back(k);
    if (last.size() < 3)
      continue;
    const Lowered &sum = function.code[k];
    const Lowered &x = function.code[last[last.size() - 3]], &y = function.code[last[last.size() - 2]];
    if (place_of[last[last.size() - 3] - block.begin] != place - 2)
      continue;
    Instruction *code = program.code.data() + place;
    for (const KnownHandlers &known : all) {
      if (code->handler != known.sum || code[-1].handler != known.load || code[-2].handler != known.load ||
          code[-1].extra_count != 1 || code[-2].extra_count != 1)
        continue;
      uint32_t first = value_in(x, Field::destination), second = value_in(y, Field::destination);
      uint32_t a = value_in(sum, Field::a), b = value_in(sum, Field::b), c = value_in(sum, Field::c);
      bool alone = mentions[first] == 2 && mentions[second] == 2;
      if (!alone || !((a == first && b == second) || (a == second && b == first)))
        continue;
      code[-2].inner = code[-2].handler;
      code[-2].handler = known.both;
      bool same_slots = last_sum == place - 3 && code[-5].known_slot == code[-2].known_slot &&
                        code[-4].known_slot == code[-1].known_slot;
      if (same_slots && last_result == c && mentions[c] == 2)
        code[-3].is_carried_on = true;
      last_sum = place;
      last_result = value_in(sum, Field::destination);
    }
  }
}

} // namespace emulator
