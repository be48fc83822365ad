// Places in the register file: constants and special registers for the whole launch, variables by liveness.
#include <algorithm>
#include <map>

#include "exec/lowered/lowered.hpp"

namespace emulator {

namespace {

constexpr uint32_t row_alignment = 64;
// Bounds the memory that liveness takes: three sets of so many words.
constexpr size_t most_set_words = size_t{1} << 26;

uint32_t aligned_rows(uint32_t offset, uint32_t row_bytes) {
  uint32_t alignment = row_bytes < row_alignment ? (row_bytes == 4 ? 4 : row_bytes) : row_alignment;
  return (offset + alignment - 1) / alignment * alignment;
}

struct Interval {
  uint32_t begin = UINT32_MAX, end = 0;
  void cover(uint32_t position) {
    begin = std::min(begin, position);
    end = std::max(end, position);
  }
};

using Set = std::vector<uint64_t>;
bool contains(const Set &set, uint32_t bit) { return set[bit / 64] >> (bit % 64) & 1; }
void insert(Set &set, uint32_t bit) { set[bit / 64] |= uint64_t{1} << (bit % 64); }

} // namespace

uint32_t ValueTable::constant(uint64_t bits, uint32_t lane_bytes) {
  auto [entry, is_new] = constants_[lane_bytes].insert({bits, static_cast<uint32_t>(values.size())});
  if (is_new)
    values.push_back({ValueKind::constant, lane_bytes == 0 ? 4 : lane_bytes * lanes_per_warp, no_offset});
  return entry->second;
}

uint32_t ValueTable::special(Special special, uint32_t lane_bytes) {
  for (const auto &[value, row] : specials_)
    if (row.special == special && row.lane_bytes == lane_bytes)
      return value;
  uint32_t value = static_cast<uint32_t>(values.size());
  values.push_back({ValueKind::special, lane_bytes * lanes_per_warp, no_offset});
  specials_.push_back({value, {no_offset, lane_bytes, special}});
  return value;
}

uint32_t ValueTable::place_shared(Program &program, uint32_t begin) {
  for (uint32_t lane_bytes : {8u, 4u, 2u, 1u, 0u})
    for (const auto &[bits, value] : constants_[lane_bytes]) {
      begin = aligned_rows(begin, values[value].row_bytes);
      values[value].offset = begin;
      program.constants.push_back({begin, lane_bytes, bits});
      begin += values[value].row_bytes;
    }
  for (auto &[value, row] : specials_) {
    begin = aligned_rows(begin, values[value].row_bytes);
    values[value].offset = row.offset = begin;
    program.specials.push_back(row);
    begin += values[value].row_bytes;
  }
  return begin;
}

uint32_t allocate_rows(const LoweredFunction &function, const std::vector<BasicBlock> &blocks,
                       ValueTable &table, uint32_t begin, AllocatedRows &result) {
  const std::vector<Lowered> &code = function.code;
  // Only what some block reads before it writes can be live between blocks; those get a bit in the sets.
  std::vector<uint32_t> bit_of(table.values.size(), UINT32_MAX), value_of_bit,
      written_in(table.values.size(), UINT32_MAX);
  for (uint32_t b = 0; b < blocks.size(); ++b)
    for (uint32_t k = blocks[b].begin; k < blocks[b].end; ++k) {
      for (const Reference &r : code[k].references)
        if (r.uses && written_in[r.value] != b && bit_of[r.value] == UINT32_MAX &&
            table.values[r.value].kind == ValueKind::variable) {
          bit_of[r.value] = static_cast<uint32_t>(value_of_bit.size());
          value_of_bit.push_back(r.value);
        }
      for (const Reference &r : code[k].references)
        if (r.defines && !r.uses)
          written_in[r.value] = b;
    }
  size_t words = (value_of_bit.size() + 63) / 64;
  if (words * blocks.size() > most_set_words)
    throw Unsupported{"a function with " + std::to_string(blocks.size()) + " blocks and " +
                          std::to_string(value_of_bit.size()) + " registers live between them",
                      code.front().source.ptx_line};
  std::vector<Set> in(blocks.size() + 1, Set(words)), used(blocks.size(), Set(words)),
      defined(blocks.size(), Set(words));
  for (size_t b = 0; b < blocks.size(); ++b)
    for (uint32_t k = blocks[b].begin; k < blocks[b].end; ++k) {
      for (const Reference &r : code[k].references)
        if (r.uses && bit_of[r.value] != UINT32_MAX && !contains(defined[b], bit_of[r.value]))
          insert(used[b], bit_of[r.value]);
      for (const Reference &r : code[k].references)
        if (r.defines && !r.uses && bit_of[r.value] != UINT32_MAX)
          insert(defined[b], bit_of[r.value]);
    }
  auto out_word = [&](size_t b, size_t w) {
    uint64_t word = 0;
    for (uint32_t s : blocks[b].successors)
      word |= in[s][w];
    return word;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;)
      for (size_t w = 0; w < words; ++w) {
        uint64_t word = used[b][w] | (out_word(b, w) & ~defined[b][w]);
        changed |= word != in[b][w];
        in[b][w] = word;
      }
  }
  std::vector<Interval> intervals(table.values.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (uint32_t k = blocks[b].begin; k < blocks[b].end; ++k)
      for (const Reference &r : code[k].references)
        intervals[r.value].cover(k);
    for (size_t w = 0; w < words; ++w) {
      for (uint64_t word = in[b][w]; word; word &= word - 1)
        intervals[value_of_bit[w * 64 + static_cast<size_t>(__builtin_ctzll(word))]].cover(blocks[b].begin);
      for (uint64_t word = out_word(b, w); word; word &= word - 1)
        intervals[value_of_bit[w * 64 + static_cast<size_t>(__builtin_ctzll(word))]].cover(blocks[b].end - 1);
    }
  }
  for (uint32_t v = 0; v < table.values.size(); ++v)
    if (table.values[v].kept && intervals[v].begin != UINT32_MAX)
      intervals[v] = {0, static_cast<uint32_t>(code.size())};
  std::vector<uint32_t> order;
  for (uint32_t v = 0; v < table.values.size(); ++v)
    if (table.values[v].kind == ValueKind::variable && intervals[v].begin != UINT32_MAX)
      order.push_back(v);
  std::sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) {
    return intervals[x].begin != intervals[y].begin ? intervals[x].begin < intervals[y].begin : x < y;
  });
  // Rows of values that ended before this one begins are free again. A result never shares a row with an
  // operand of the same instruction, unless the text says so.
  std::multimap<uint32_t, uint32_t> ends;              // end of an interval -> value
  std::map<uint32_t, std::vector<uint32_t>> free_rows; // row size -> offsets
  for (uint32_t v : order) {
    while (!ends.empty() && ends.begin()->first < intervals[v].begin) {
      const Value &ended = table.values[ends.begin()->second];
      free_rows[ended.row_bytes].push_back(ended.offset);
      ends.erase(ends.begin());
    }
    Value &value = table.values[v];
    std::vector<uint32_t> &free = free_rows[value.row_bytes];
    if (free.empty()) {
      begin = aligned_rows(begin, value.row_bytes);
      value.offset = begin;
      result.all.push_back({begin, value.row_bytes});
      begin += value.row_bytes;
    } else {
      value.offset = free.back();
      free.pop_back();
    }
    ends.insert({intervals[v].end, v});
  }
  if (!blocks.empty())
    for (size_t bit = 0; bit < value_of_bit.size(); ++bit)
      if (contains(in[0], static_cast<uint32_t>(bit)))
        result.undefined.push_back(
            {table.values[value_of_bit[bit]].offset, table.values[value_of_bit[bit]].row_bytes});
  for (uint32_t v : order)
    if (table.values[v].kept)
      result.kept.push_back({table.values[v].offset, table.values[v].row_bytes});
  // What is read before it is done is what was there before, in every block the same.
  result.undefined.insert(result.undefined.end(), result.kept.begin(), result.kept.end());
  return begin;
}

} // namespace emulator
