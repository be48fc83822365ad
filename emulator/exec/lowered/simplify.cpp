// Less to do in a basic block: copies whose readers can read the original, products that are part of one
// address, results that nobody reads. What instructions count as stays.
#include <algorithm>
#include <array>

#include "exec/lowered/lowered.hpp"
#include "exec/operations/builds.hpp"

namespace emulator {

namespace {

// How far a reader is looked for, so that the time grows with the length of the block alone.
constexpr uint32_t most_apart = 64;

struct KnownHandlers {
  std::vector<Handler> copies;
  Handler add = nullptr;
  std::array<std::pair<Handler, Handler>, 2> products; // without and with a sum

  KnownHandlers() {
    auto find = [](const char *form) { return operation_table().find(form)->handler; };
    copies = {find("mov.b16"), find("mov.b32"), find("mov.f32"), find("mov.b64"), find("mov.f64")};
    add = find("add.u64");
    products = {std::make_pair(find("mul.wide.u32"), find("mad.wide.u32")),
                std::make_pair(find("mul.wide.s32"), find("mad.wide.s32"))};
  }
};

class Simplifier {
public:
  Simplifier(LoweredFunction &function, const ValueTable &table)
      : code_(function.code), table_(table), mentions_(table.values.size()) {
    for (const Lowered &lowered : code_)
      for (const Reference &r : lowered.references)
        ++mentions_[r.value];
  }

  bool run(const std::vector<BasicBlock> &blocks) {
    for (const BasicBlock &block : blocks)
      for (uint32_t k = block.begin; k < block.end; ++k) {
        if (code_[k].result_is_optional)
          forget_result(code_[k]);
        const Instruction &i = code_[k].instruction;
        if (i.inner) // guarded
          continue;
        uint32_t end = std::min(block.end, k + most_apart);
        if (std::find(known_.copies.begin(), known_.copies.end(), i.handler) != known_.copies.end())
          forward_copy(k, end);
        for (const auto &[product, with_sum] : known_.products)
          if (i.handler == product)
            join_product(k, end, with_sum);
      }
    return changed_;
  }

private:
  static uint32_t value_in(const Lowered &lowered, Field field) {
    for (const Reference &r : lowered.references)
      if (r.field == field)
        return r.value;
    return UINT32_MAX;
  }
  static bool mentions(const Lowered &lowered, uint32_t value, bool defined) {
    return std::any_of(lowered.references.begin(), lowered.references.end(),
                       [&](const Reference &r) { return r.value == value && (!defined || r.defines); });
  }
  void drop(Lowered &lowered) {
    for (const Reference &r : lowered.references)
      --mentions_[r.value];
    lowered.references.clear();
    lowered.dropped = changed_ = true;
  }

  // Compilers give atomic operations a result that nobody reads.
  void forget_result(Lowered &lowered) {
    auto unread = [&](const Reference &r) {
      return r.field == Field::destination && mentions_[r.value] == 1;
    };
    auto result = std::find_if(lowered.references.begin(), lowered.references.end(), unread);
    if (result == lowered.references.end())
      return;
    --mentions_[result->value];
    lowered.references.erase(result);
    changed_ = true;
  }

  // All that read the copy must come after it in the block, before the original or the copy changes.
  void forward_copy(uint32_t at, uint32_t end) {
    uint32_t original = value_in(code_[at], Field::a), copy = value_in(code_[at], Field::destination);
    if (original == copy || table_.values[original].row_bytes != table_.values[copy].row_bytes ||
        table_.values[original].kept || table_.values[copy].kept)
      return;
    uint32_t left = mentions_[copy] - 1, last = at;
    while (left != 0 && ++last < end) {
      const Lowered &reader = code_[last];
      if (reader.accounts || mentions(reader, copy, true) || mentions(reader, original, true))
        return;
      left -= static_cast<uint32_t>(std::count_if(reader.references.begin(), reader.references.end(),
                                                  [&](const Reference &r) { return r.value == copy; }));
    }
    if (left != 0)
      return;
    for (uint32_t k = at + 1; k <= last; ++k) {
      for (Reference &r : code_[k].references)
        if (r.value == copy) {
          r.value = original;
          ++mentions_[original];
        }
      std::replace(code_[k].list.begin(), code_[k].list.end(), copy, original);
    }
    drop(code_[at]);
  }

  // The product's only reader must be a sum in the block, before one of the factors changes.
  void join_product(uint32_t at, uint32_t end, Handler with_sum) {
    const Lowered &product = code_[at];
    uint32_t result = value_in(product, Field::destination);
    uint32_t factors[] = {value_in(product, Field::a), value_in(product, Field::b)};
    if (mentions_[result] != 2)
      return;
    for (uint32_t k = at + 1; k < end; ++k) {
      Lowered &sum = code_[k];
      if (sum.accounts)
        return;
      if (!mentions(sum, result, false)) {
        if (mentions(sum, factors[0], true) || mentions(sum, factors[1], true))
          return;
        continue;
      }
      if (sum.instruction.handler != known_.add || sum.instruction.inner)
        return;
      uint32_t a = value_in(sum, Field::a), b = value_in(sum, Field::b),
               to = value_in(sum, Field::destination);
      if (to == result)
        return;
      sum.instruction.handler = with_sum;
      sum.references = {{factors[0], Field::a, false, true},
                        {factors[1], Field::b, false, true},
                        {a == result ? b : a, Field::c, false, true},
                        {to, Field::destination, true, false}};
      ++mentions_[factors[0]], ++mentions_[factors[1]], --mentions_[result];
      drop(code_[at]);
      return;
    }
  }

  std::vector<Lowered> &code_;
  const ValueTable &table_;
  std::vector<uint32_t> mentions_; // of each value, in the function
  const KnownHandlers known_;
  bool changed_ = false;
};

} // namespace

bool simplify(LoweredFunction &function, const std::vector<BasicBlock> &blocks, const ValueTable &table) {
  return Simplifier(function, table).run(blocks);
}

} // namespace emulator
