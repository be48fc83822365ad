#include "exec/decode/products.hpp"

#include <string>

#include "exec/operations/builds.hpp"

namespace emulator {

namespace {

struct KnownHandlers {
  Handler load = nullptr, product = nullptr, sum = nullptr;
  Handler of_loads = nullptr; // nullptr: this processor has none
  Handler of_product = nullptr;

  KnownHandlers(const char *load_form, const std::string &type) {
    const OperationTable &table = operation_table();
    load = table.find(load_form)->known;
    product = table.find("mul." + type)->handler;
    sum = table.find("fma." + type)->handler;
    of_product = table.find("two_products." + type)->handler;
    if (const Operation *found = table.find("products." + type))
      of_loads = found->handler;
  }
};

const KnownHandlers (&known_handlers())[2] {
  static const KnownHandlers all[] = {{"ld.u32.32", "f32"}, {"ld.u64.64", "f64"}};
  return all;
}

uint32_t value_in(const Lowered &lowered, Field field) {
  for (const Reference &r : lowered.references)
    if (r.field == field)
      return r.value;
  return UINT32_MAX;
}

class Joiner {
public:
  Joiner(Program &program, const LoweredFunction &function, const std::vector<uint32_t> &mentions)
      : program_(program), function_(function), mentions_(mentions) {}

  void run(const BasicBlock &block, const std::vector<size_t> &place_of) {
    uint32_t before = UINT32_MAX, last = UINT32_MAX; // the two instructions that come before this one
    for (uint32_t k = block.begin; k < block.end; ++k) {
      size_t place = place_of[k - block.begin];
      if (place == SIZE_MAX)
        continue;
      auto is_right_before = [&](uint32_t other, size_t distance) {
        return other != UINT32_MAX && place_of[other - block.begin] + distance == place;
      };
      for (const KnownHandlers &known : known_handlers())
        if (program_.code[place].handler == known.sum && is_right_before(last, 1)) {
          if (is_right_before(before, 2))
            join_loads(known, function_.code[before], function_.code[last], function_.code[k], place);
          join_product(known, function_.code[last], function_.code[k], place);
        }
      before = last;
      last = k;
    }
  }

private:
  bool is_read_once(uint32_t value) const { return mentions_[value] == 2; } // written once, too

  void join_product(const KnownHandlers &known, const Lowered &product, const Lowered &sum, size_t place) {
    Instruction &first = program_.code[place - 1];
    uint32_t result = value_in(product, Field::destination);
    if (first.handler == known.product && is_read_once(result) && value_in(sum, Field::c) == result)
      first.handler = known.of_product;
  }

  void join_loads(const KnownHandlers &known, const Lowered &x, const Lowered &y, const Lowered &sum,
                  size_t place) {
    Instruction *code = program_.code.data() + place;
    auto is_load = [&](const Instruction &i) { return i.handler == known.load && i.extra_count == 1; };
    if (!known.of_loads || !is_load(code[-1]) || !is_load(code[-2]))
      return;
    uint32_t first = value_in(x, Field::destination), second = value_in(y, Field::destination);
    uint32_t a = value_in(sum, Field::a), b = value_in(sum, Field::b), c = value_in(sum, Field::c);
    bool both = (a == first && b == second) || (a == second && b == first);
    if (!both || !is_read_once(first) || !is_read_once(second))
      return;
    code[-2].inner = code[-2].handler;
    code[-2].handler = known.of_loads;
    bool same_slots = last_sum_ + 3 == place && code[-5].known_slot == code[-2].known_slot &&
                      code[-4].known_slot == code[-1].known_slot;
    if (same_slots && last_result_ == c && is_read_once(c))
      code[-3].is_carried_on = true;
    last_sum_ = place;
    last_result_ = value_in(sum, Field::destination);
  }

  Program &program_;
  const LoweredFunction &function_;
  const std::vector<uint32_t> &mentions_;
  size_t last_sum_ = SIZE_MAX / 2; // in Program::code: of the last product of loads
  uint32_t last_result_ = UINT32_MAX;
};

} // namespace

void join_products(Program &program, const LoweredFunction &function, const BasicBlock &block,
                   const std::vector<size_t> &place_of, const std::vector<uint32_t> &mentions) {
  Joiner(program, function, mentions).run(block, place_of);
}

} // namespace emulator
